"""What an agent writes into the cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.make import BOOT, xid79
from wheeltapper.labels import label
from wheeltapper.verdict import State, Verdict
from wheeltapper_hooks.agent.kubernetes_teller import condition, health_status, reason
from wheeltapper_operator.objects import node_health


def verdict(state=State.FAIL, *findings, note="", boot=BOOT) -> Verdict:
    return Verdict("n1", state, 5.0, 30.0, boot, findings, note)


@pytest.mark.parametrize(
    ("of", "said"),
    [
        (verdict(State.OK), "Healthy"),
        (verdict(State.UNKNOWN, note="the kernel log cannot be read"), "NotJudged"),
        (verdict(State.FAIL, xid79("n1")), "Xid79"),
        (verdict(State.FAIL, replace(xid79("n1"), label=label("hardware/gpu_lost"))), "Xid79GpuLost"),
        (
            verdict(State.FAIL, replace(xid79("n1"), label=label("hardware/nvlink"), detail="sxid=20034")),
            "Sxid20034Nvlink",
        ),
        (verdict(State.WARN, replace(xid79("n1"), label=label("resource/disk_full"), detail="97%")), "DiskFull"),
    ],
)
def test_a_reason_is_one_word(of, said):
    assert reason(of) == said


@pytest.mark.parametrize(
    ("state", "status"), [(State.OK, "False"), (State.WARN, "False"), (State.FAIL, "True"), (State.UNKNOWN, "Unknown")]
)
def test_true_is_a_problem(state, status):
    assert condition(verdict(state), 0.0, {})["status"] == status


def test_the_time_of_the_last_transition_is_that_of_the_status_and_not_of_the_words():
    first = condition(verdict(State.FAIL, xid79("n1")), 0.0, {})
    other = condition(verdict(State.FAIL, xid79("n1", gpu="0000:4c:00")), 60.0, first)
    well = condition(verdict(State.OK), 120.0, other)

    assert [each["lastTransitionTime"][14:19] for each in (first, other, well)] == ["00:00", "00:00", "02:00"]


def test_what_the_agent_writes_is_what_the_operator_reads():
    status = health_status(verdict(State.FAIL, xid79("n1")), 100.0, {})
    read = node_health({"metadata": {"name": "n1"}, "status": status})

    assert (read.state, read.since, read.boot_id, read.findings) == (State.FAIL, 100.0, BOOT, (xid79("n1"),))


def test_a_new_agent_is_no_new_state():
    before = health_status(verdict(State.OK), 100.0, {})

    assert health_status(verdict(State.OK), 900.0, before) == before
    assert health_status(verdict(State.OK, boot="another"), 900.0, before)["since"] == 900.0
    assert health_status(verdict(State.FAIL, xid79("n1")), 900.0, before)["since"] == 900.0
