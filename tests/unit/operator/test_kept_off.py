"""A pod whose preflight does not let it start: how it is read, and what is concluded."""

from __future__ import annotations

import json
from dataclasses import replace

import orjson
import pytest

from tests.unit.make import BOOT, xid79
from wheeltapper import catalogue
from wheeltapper import kubernetes_names as names
from wheeltapper.attempt import Ending
from wheeltapper.config import PolicySection
from wheeltapper.policy.decide import decide
from wheeltapper.policy.model import History
from wheeltapper.verdict import State
from wheeltapper_operator import judge
from wheeltapper_operator.endings import Ending as Gathered
from wheeltapper_operator.jobs import PYTORCH, job
from wheeltapper_operator.objects import NodeHealth
from wheeltapper_operator.pods import pod

AT = 1_790_000_000.0
SAID = {"state": "fail", "sentence": "n1 is fail: hardware/gpu_xid xid=79 on GPU 0000:3b:00 (reboot)"}


def item(state, last=None, name=names.PREFLIGHT_CONTAINER):
    status = {"name": name, "state": state, "lastState": last or {}, "restartCount": 0}
    return {
        "metadata": {
            "name": "train-worker-0",
            "namespace": "team",
            "uid": "p-1",
            "labels": {PYTORCH.pod_label: "train"},
            "creationTimestamp": "2026-09-21T14:13:20Z",
        },
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Pending", "initContainerStatuses": [status]},
    }


def ended(code):
    return {"terminated": {"exitCode": code, "reason": "Error", "message": json.dumps(SAID)}}


WAITS = {"waiting": {"reason": "CrashLoopBackOff"}}


@pytest.mark.parametrize(
    ("state", "last", "kept_off"),
    [
        (ended(names.KEPT_OFF), None, True),
        (WAITS, ended(names.KEPT_OFF), True),
        (ended(0), ended(names.KEPT_OFF), False),
        (ended(1), None, False),
        ({"running": {}}, None, False),
    ],
)
def test_the_last_word_of_the_preflight_counts(state, last, kept_off):
    assert pod(item(state, last), PYTORCH.pod_label).kept_off is kept_off


def test_the_same_exit_code_of_another_container_says_nothing():
    assert not pod(item(ended(names.KEPT_OFF), name="prepare"), PYTORCH.pod_label).kept_off


def health(*findings):
    return NodeHealth("n1", BOOT, State.FAIL if findings else State.OK, AT - 7200, findings)


def concluded(*healths):
    gathered = Gathered(1, AT, AT)
    gathered.take(pod(item(ended(names.KEPT_OFF)), PYTORCH.pod_label), AT)
    train = job(
        orjson.loads(
            orjson.dumps(
                {
                    "metadata": {"name": "train", "namespace": "team", "uid": "u-1", "resourceVersion": "5"},
                    "spec": {"pytorchReplicaSpecs": {}},
                }
            )
        ),
        PYTORCH,
    )
    attempt = judge.attempt_of(train, gathered, ["n1"], AT)
    diagnosis = judge.diagnosis_of(gathered, attempt, healths, "", catalogue.load(()), 1800.0)
    return attempt, diagnosis, decide(diagnosis, attempt, History(), PolicySection(), AT)


def test_a_fault_that_is_two_hours_old_still_explains_why_a_pod_was_kept_off():
    fault = xid79("n1", at=AT - 7200)
    attempt, diagnosis, decision = concluded(health(fault))

    assert attempt.ending is Ending.LAUNCH_FAILED
    assert (diagnosis.label, diagnosis.confirmed) == ("hardware/gpu_xid", True)
    assert decision.job.requeue
    assert decision.job.exclude == ("n1",)
    assert "kept off n1" in decision.job.reason


def test_without_the_agents_own_word_no_node_is_guilty_whatever_the_pod_says():
    _, diagnosis, decision = concluded(health())

    assert not diagnosis.confirmed
    assert decision.quarantine == ()
    assert decision.job.exclude == ()


def test_an_agent_convicts_its_own_node_only():
    _, diagnosis, _ = concluded(replace(health(xid79("n1", at=AT - 60)), name="n2"))

    assert not diagnosis.confirmed
