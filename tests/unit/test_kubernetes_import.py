"""Interruption objects of a cluster as records of the ledger."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.integration.ledger.made import interruption
from wheeltapper import codec
from wheeltapper.errors import WheeltapperError
from wheeltapper.ledger.kubernetes import interruptions


def an_object(key: str = "uid/1", **spec: Any) -> dict[str, Any]:
    """An Interruption object as far as an import looks at it."""
    return {
        "apiVersion": "wheeltapper.dev/v1alpha1",
        "kind": "Interruption",
        "metadata": {"namespace": "ml", "name": "bert-0"},
        "spec": {"job": "bert", "record": codec.dump(interruption(key)), **spec},
    }


def a_list(*items: Any) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(items)})


def test_a_list_gives_the_records_as_they_were_written():
    found = list(interruptions(a_list(an_object("a/1"), an_object("a/2")), "-"))

    assert found == [interruption("a/1"), interruption("a/2")]


def test_one_object_alone_is_one_record():
    assert list(interruptions(json.dumps(an_object()), "-")) == [interruption("uid/1")]


def test_an_empty_list_is_none():
    assert list(interruptions(a_list(), "-")) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("NAME JOB", "x.json is not JSON"),
        ("[]", "x.json is no output of `kubectl get interruptions"),
        ('{"items": 3}', "items is no list"),
        (a_list(an_object(), 7), r"items\[1\] is no object"),
        (a_list(an_object(), {"kind": "Pod"}), r"items\[1\] \(it has no name\) is no Interruption"),
        (
            a_list({**an_object(), "apiVersion": "v2"}),
            r"items\[0\] \(ml/bert-0\) is no Interruption of wheeltapper.dev",
        ),
        (a_list(an_object(record=None)), r"items\[0\] \(ml/bert-0\): spec.record: there is none"),
        (a_list({**an_object(), "spec": "none"}), r"items\[0\] \(ml/bert-0\): spec.record: there is none"),
        (a_list(an_object(record={})), r"items\[0\] \(ml/bert-0\): spec.record.attempt: "),
        (json.dumps(an_object(record={})), r"x.json \(ml/bert-0\): spec.record.attempt: "),
    ],
)
def test_what_is_no_record_is_named(text: str, words: str):
    with pytest.raises(WheeltapperError, match=words):
        list(interruptions(text, "x.json"))
