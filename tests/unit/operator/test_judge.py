"""From what was gathered of an attempt to its diagnosis."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.unit.operator.test_gang import merged, pytorch, view
from wheeltapper import catalogue, config
from wheeltapper import kubernetes_names as names
from wheeltapper.policy.decide import refusal
from wheeltapper.policy.model import History, Payer
from wheeltapper_operator import judge
from wheeltapper_operator.endings import Ending
from wheeltapper_operator.pods import pod

LABEL = "training.kubeflow.org/job-name"
NOW = 1_000.0


def leaving(name: str, node: str):
    """A pod that the taint manager deletes, since its node does not answer."""
    meta = {"name": name, "namespace": "team", "uid": f"u-{name}", "labels": {LABEL: "train"}}
    reason = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "gone"}
    return pod(
        {"metadata": meta, "spec": {"nodeName": node}, "status": {"phase": "Running", "conditions": [reason]}}, LABEL
    )


def events(*about: str) -> str:
    items = [
        {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{name}.1"},
            "involvedObject": {"kind": "Pod", "name": name},
            "reason": "NodeNotReady",
            "message": "Node is not ready",
        }
        for name in about
    ]
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": items})


def test_a_node_that_does_not_answer_is_named_and_not_proven():
    gathered = Ending(1, NOW, NOW)
    gathered.take(leaving("train-worker-0", "n2"), NOW)
    attempt = judge.attempt_of(view(pytorch()), gathered, ["n1", "n2"], NOW)
    diagnosis = judge.diagnosis_of(gathered, attempt, [], events("train-worker-0"), catalogue.load(), 1800.0)

    assert diagnosis.label == "hardware/node_down"
    assert diagnosis.root is not None
    assert diagnosis.root.evidence.node == "n2"
    assert not diagnosis.confirmed
    assert diagnosis.confidence <= 0.5
    assert {suspect.node for suspect in diagnosis.suspects} == {"n2"}


@pytest.mark.parametrize(
    ("ready", "host", "label"),
    [(False, "n2", "hardware/node_down"), (True, "n2", "scheduler/evicted"), (False, "n1", "scheduler/evicted")],
    ids=["its-node-is-silent", "its-node-answers", "another-node-is-silent"],
)
def test_a_node_that_does_not_answer_is_named_before_an_event_says_so(ready: bool, host: str, label: str):
    gathered = Ending(1, NOW, NOW)
    gathered.take(leaving("train-worker-0", "n2"), NOW)
    attempt = judge.attempt_of(view(pytorch()), gathered, ["n1", "n2"], NOW)
    gathered.silent = {} if ready else {host: NOW - 45.0}
    diagnosis = judge.diagnosis_of(gathered, attempt, [], "", catalogue.load(), 1800.0)

    assert diagnosis.label == label
    assert not diagnosis.confirmed
    if label == "hardware/node_down":
        assert diagnosis.root is not None
        assert diagnosis.root.evidence.node == "n2"
        assert diagnosis.confidence <= 0.5


def test_an_event_about_a_pod_that_nobody_knows_names_no_node():
    gathered = Ending(1, NOW, NOW)
    gathered.take(leaving("train-worker-0", "n2"), NOW)
    attempt = judge.attempt_of(view(pytorch()), gathered, ["n1", "n2"], NOW)
    diagnosis = judge.diagnosis_of(gathered, attempt, [], events("train-worker-7"), catalogue.load(), 1800.0)

    assert diagnosis.root is not None
    assert diagnosis.root.evidence.node is None


@pytest.mark.parametrize(
    ("annotations", "wants"), [({}, None), ({names.WISH: "on"}, True), ({names.WISH: "off"}, False)], ids=str
)
def test_what_a_user_has_asked_for_counts(annotations: dict[str, str], wants: bool | None):
    job = view(merged(pytorch(), {"metadata": {"annotations": annotations}}))

    assert judge.attempt_of(job, Ending(1, NOW, NOW), ["n1"], NOW).wants_requeue is wants


def test_a_job_that_is_anothers_is_left_alone_in_the_words_that_say_whose_it_is():
    job = replace(view(pytorch()), leave_alone="it is Kueue's, and for Kueue it has ended")
    attempt = judge.attempt_of(job, Ending(1, NOW, NOW), ["n1"], NOW)

    assert refusal(Payer.INFRASTRUCTURE, attempt, History(), config.parse("").policy) == job.leave_alone
