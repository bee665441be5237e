"""What the pod's client leaves behind."""

from __future__ import annotations

import json

from wheeltapper_hooks.preflight_pod import KEPT_OFF, MESSAGE_BYTES, main, message


def report(count: int, length: int = 300):
    return {"state": "fail", "sentence": "n1 is fail" * 50, "findings": [{"text": "é" * length}] * count}


def test_a_report_that_fits_stands_as_it_is():
    assert json.loads(message(report(1, 10))) == report(1, 10)


def test_of_a_long_report_the_last_findings_are_left_out():
    text = message(report(5))

    assert len(text) <= MESSAGE_BYTES
    assert 0 < len(json.loads(text)["findings"]) < 5


def test_even_a_sentence_without_end_fits():
    text = message({"state": "fail", "sentence": "x" * 9000})

    assert len(text) <= MESSAGE_BYTES
    assert json.loads(text)["state"] == "fail"


def test_without_a_token_the_pod_starts_and_says_why(tmp_path):
    place = tmp_path / "message"

    assert main({}, str(tmp_path / "token"), str(place)) == 0
    assert json.loads(place.read_bytes())["state"] == "unknown"
    assert "token" in json.loads(place.read_bytes())["sentence"]
    assert KEPT_OFF != 0
