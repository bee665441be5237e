"""What stands: which findings of a check are the same at the next look, and what a check says in one word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.make import BOOT, xid79
from wheeltapper.checks.model import Fault, Host
from wheeltapper.checks.outcome import Result, concluded, of_gpus
from wheeltapper.evidence import Disposition, Role
from wheeltapper.verdict import State
from wheeltapper_hooks.agent.judge import forgiven, judge, settling_key
from wheeltapper_hooks.agent.standing import compared, place

HOST = Host("n1", BOOT)
HOT = Fault("gpu_temperature", "hardware/thermal", "too hot")
LOST = Fault("gpu_count", "hardware/gpu_lost", "lost", Disposition.REBOOT)


def hot(degrees: int = 90, gpu: str = "0000:3b:00", at: float = 10.0):
    return HOT.seen(HOST, at, f"the GPU is at {degrees} C", detail=f"temp={degrees}C", gpu=gpu)


def lost(found: int = 7, at: float = 10.0):
    return LOST.seen(HOST, at, f"{found} of 8 GPUs", detail=f"expected=8 found={found}")


def test_a_warning_is_the_same_whatever_its_number_is():
    change = compared([hot(90, at=10.0)], [hot(95, at=70.0)])

    assert (change.began, change.ended) == ((), ())
    (stands,) = change.standing
    assert (stands.detail, stands.evidence.at) == ("temp=95C", 10.0), "its newest words, and when it began"


def test_a_fault_that_grew_is_a_new_one():
    change = compared([lost(7)], [lost(6, at=70.0)])

    assert change.began == change.standing == (lost(6, at=70.0),)
    assert change.ended == (lost(7),)


def test_the_same_warning_on_another_gpu_is_another_one():
    change = compared([hot()], [hot(), hot(gpu="0000:86:00")])

    assert [each.evidence.gpu for each in change.began] == ["0000:86:00"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("used=91% mount=/data", "used=99% mount=/data", True),
        ("used=91% mount=/data", "used=91% mount=/home", False),
        ("device=mlx5_0", "device=mlx5_1", False),
        ("rate=1.5 of=100", "rate=12.25 of=100", True),
    ],
)
def test_only_plain_numbers_of_a_detail_may_change(one, other, same):
    assert (place(replace(hot(), detail=one)) == place(replace(hot(), detail=other))) is same


def test_what_is_found_twice_stands_once():
    assert compared([], [hot(), hot()]).standing == (hot(),)


def test_a_warning_warns_and_a_witness_does_not():
    witness = replace(hot(), role=Role.CONFIRM)

    assert judge([hot()], frozenset(), "") == (State.WARN, (hot(),), "")
    assert judge([witness], frozenset(), "")[0] is State.OK
    assert judge([hot()], frozenset(), "nvml hangs")[0] is State.UNKNOWN
    assert judge([hot(), lost()], frozenset(), "nvml hangs") == (State.FAIL, (lost(),), "")


def test_a_settled_fault_and_a_warning_are_told_together():
    state, findings, note = judge([lost(), hot()], frozenset({settling_key(lost())}), "")

    assert (state, findings, note) == (State.WARN, (lost(), hot()), "a person put it back to work")


def test_an_outcome_says_what_was_seen_or_why_nothing_was():
    assert concluded("c", ()).result is Result.OK
    assert concluded("c", (hot(),)).reason == "the GPU is at 90 C"
    assert concluded("c", (), absent="no GPU").result is Result.NOT_APPLICABLE
    assert concluded("c", (hot(),), trouble="it hangs").result is Result.UNKNOWN
    blind = concluded("c", (lost(),), trouble="it hangs")
    assert (blind.result, blind.reason) == (Result.FAIL, "7 of 8 GPUs (not looked at since: it hangs)")


def test_an_outcome_for_some_gpus_leaves_out_the_warnings_of_others():
    both = concluded("c", (hot(), hot(91, gpu="0000:86:00")))

    assert of_gpus(both, ["0000:86:00"]).reason == "the GPU is at 91 C"
    assert of_gpus(both, ["0000:af:00"]).result is Result.OK
    fault = concluded("c", (replace(lost(), evidence=replace(lost().evidence, gpu="0000:3b:00")),))
    assert of_gpus(fault, ["0000:86:00"]) == fault, "what convicts is the node's"


def test_an_outcome_that_a_person_has_settled_warns():
    settled = frozenset({settling_key(lost())})

    assert forgiven(concluded("c", (lost(),)), settled).reason == "a person put it back to work: 7 of 8 GPUs"
    assert forgiven(concluded("c", (lost(6),)), settled).result is Result.FAIL
    assert forgiven(concluded("c", (hot(),)), settled).result is Result.WARN


def test_a_finding_of_the_kernel_log_keeps_its_own_key():
    assert place(xid79()) == settling_key(xid79())
