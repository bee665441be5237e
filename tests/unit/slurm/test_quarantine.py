from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.unit.make import BOOT, logged, xid79
from tests.unit.slurm.fake import FakeSlurm, node
from wheeltapper.config import PolicySection
from wheeltapper.errors import SchedulerDown
from wheeltapper.evidence import Disposition, Source
from wheeltapper.ledger.model import Outcome
from wheeltapper.ledger.store import Ledger
from wheeltapper.wire import Leave
from wheeltapper_slurm.quarantine import Gate

OURS = "wheeltapper: hardware/pcie at=2026-11-29T12:01:03Z: reboot"


@pytest.fixture
def ledger(tmp_path):
    store = Ledger(tmp_path / "ledger.db")
    yield store
    store.close()


def ask(ledger, slurm, *findings, node="n2", mode="full", job="12"):
    gate = Gate(slurm, ledger, PolicySection(mode=mode), clock=lambda: 1200.0)
    return asyncio.run(gate.ask(Leave(node, BOOT, "epilog", findings or (xid79(),), job)))


def test_a_convicted_node_is_drained_in_one_call_with_the_whole_reason(ledger):
    slurm = FakeSlurm(node())

    answer = ask(ledger, slurm)

    assert answer.out
    assert slurm.asked == [
        ("drain", "n2", "wheeltapper: hardware/gpu_xid xid=79 gpu=0000:3b:00 job=12 at=1970-01-01T00:16:40Z: reboot")
    ]
    assert [past.outcome for past in ledger.quarantines(node="n2")] == [Outcome.DONE]


def test_a_node_that_a_person_drained_stays_theirs(ledger):
    slurm = FakeSlurm(node(states=("IDLE", "DRAIN"), reason="admin: swap PSU"))

    answer = ask(ledger, slurm)

    assert (answer.out, answer.reason) == (True, "it is out already: admin: swap PSU")
    assert slurm.asked == []


def test_a_node_that_a_person_put_back_is_not_taken_out_again_on_the_same_evidence(ledger):
    slurm = FakeSlurm(node())
    ask(ledger, slurm)
    slurm.put_back("n2")

    again = ask(ledger, slurm)
    fresh = ask(ledger, slurm, xid79(sequence=8))

    assert (again.out, again.released) == (False, True)
    assert fresh.out
    assert len(slurm.asked) == 2


def test_the_budget_blocks_and_the_block_stays_visible(ledger):
    slurm = FakeSlurm(node(), node("n1", ("IDLE", "DRAIN"), OURS), node("n3"), node("n4"))

    answer = ask(ledger, slurm)
    ask(ledger, slurm)

    assert not answer.out
    assert answer.reason == "the budget forbids it: 1 of 4 nodes of main are out already and the budget is 1"
    assert slurm.asked == []
    assert [(past.outcome, past.note) for past in ledger.quarantines()] == [
        (Outcome.FAILED, "1 of 4 nodes of main are out already and the budget is 1")
    ]


def test_observe_mode_drains_nothing_and_records_once_what_it_would_have_done(ledger):
    slurm = FakeSlurm(node())

    answers = [ask(ledger, slurm, mode="observe") for _ in range(3)]

    assert not any(answer.out for answer in answers)
    assert slurm.asked == []
    assert [past.outcome for past in ledger.quarantines()] == [Outcome.OBSERVED]


def test_observe_mode_lets_hooks_pass_even_on_a_node_that_a_person_drained(ledger):
    """A prolog that failed there would change a job's course."""
    slurm = FakeSlurm(node(states=("IDLE", "DRAIN"), reason="admin: swap PSU"))

    assert not ask(ledger, slurm, mode="observe").out
    assert ledger.quarantines() == []


@pytest.mark.parametrize(
    "finding",
    [
        pytest.param(logged("software/oom"), id="software"),
        pytest.param(
            replace(xid79(), evidence=replace(xid79().evidence, source=Source.JOB_LOG)), id="an Xid in a job's log"
        ),
        pytest.param(xid79("n3"), id="another node's"),
    ],
)
def test_only_positive_hardware_evidence_of_its_own_takes_a_node_out(ledger, finding):
    slurm = FakeSlurm(node())

    assert not ask(ledger, slurm, finding).out
    assert slurm.asked == []


def test_a_silent_slurmctld_is_an_error_and_nothing_is_recorded(ledger):
    with pytest.raises(SchedulerDown):
        ask(ledger, FakeSlurm(node(), down=True))
    assert ledger.quarantines() == []


@pytest.mark.parametrize("mode", ["observe", "quarantine", "full"])
def test_a_drill_is_recorded_and_asks_slurm_for_nothing_in_any_mode(ledger, mode):
    slurm = FakeSlurm(node())
    gate = Gate(slurm, ledger, PolicySection(mode=mode), clock=lambda: 1200.0)
    answer = asyncio.run(gate.ask(Leave("n2", BOOT, "drill", (xid79(),))))

    assert (answer.out, answer.released, answer.recorded) == (False, False, True)
    assert slurm.asked == []
    (past,) = ledger.quarantines(node="n2")
    assert (past.outcome, past.note) == (Outcome.OBSERVED, "a drill")
    assert past.reason.startswith("wheeltapper drill: hardware/gpu_xid xid=79")


def test_a_drill_forgives_no_real_fault(ledger):
    slurm = FakeSlurm(node())
    gate = Gate(slurm, ledger, PolicySection(mode="full"), clock=lambda: 1200.0)
    asyncio.run(gate.ask(Leave("n2", BOOT, "drill", (xid79(),))))

    assert ask(ledger, slurm).out


def test_a_fault_that_asks_for_more_is_written_on_a_node_that_is_out_already(ledger):
    """Its release must not rest on the milder fault alone."""
    slurm = FakeSlurm(node())
    mild = replace(xid79(), disposition=Disposition.RESET_GPU)
    ask(ledger, slurm, mild)

    again = ask(ledger, slurm, mild)
    more = ask(ledger, slurm, xid79(sequence=9))

    assert again.reason.startswith("it is out already: wheeltapper: ")
    assert more.out
    assert [asked[2].rpartition(": ")[2] for asked in slurm.asked] == ["reset the GPU", "reboot"]
    assert [(past.disposition.value, past.first) for past in ledger.quarantines()] == [
        ("reset_gpu", True),
        ("reboot", False),
    ]


def test_of_several_faults_the_reason_names_the_first_and_what_the_strictest_asks_for(ledger):
    slurm = FakeSlurm(node())

    ask(ledger, slurm, xid79(), replace(xid79(sequence=8), disposition=Disposition.INSPECT))

    assert slurm.asked[0][2].endswith(": reboot, then inspect")
    assert ledger.quarantines()[0].disposition is Disposition.INSPECT


def test_the_third_time_in_a_month_is_a_persons_and_the_reason_says_so(ledger):
    slurm = FakeSlurm(node())
    for sequence in (1, 2, 3):
        ask(ledger, slurm, xid79(sequence=sequence))
        slurm.put_back("n2")

    assert slurm.asked[1][2].endswith(": reboot")
    assert slurm.asked[2][2].endswith(": reboot; out 3 times in 30 days, a person decides")


def test_a_node_that_took_itself_out_while_we_were_away_is_looked_after_from_then_on(ledger):
    reason = "wheeltapper: hardware/gpu_xid xid=79 gpu=0000:3b:00 at=1970-01-01T00:16:40Z: reboot"
    slurm = FakeSlurm(node(states=("IDLE", "DRAIN"), reason=reason))

    for _ in range(2):
        assert ask(ledger, slurm, job=None).out

    assert [(past.reason, past.note) for past in ledger.quarantines()] == [(reason, "it was out already")]
    assert slurm.asked == []


@pytest.mark.parametrize("added", [" (Ann: keep it out)", "; RMA 4711"])
def test_a_reason_to_which_a_person_has_added_is_theirs(ledger, added):
    reason = f"wheeltapper: hardware/gpu_xid xid=79 gpu=0000:3b:00 at=1970-01-01T00:16:40Z: reboot{added}"
    slurm = FakeSlurm(node(states=("IDLE", "DRAIN"), reason=reason))

    assert ask(ledger, slurm, job=None).out
    assert ledger.quarantines() == []
    assert slurm.asked == []


def test_a_drain_whose_record_was_lost_is_ours_again_when_the_node_asks(ledger):
    """The service was killed between the two: the node must not wait for ever for somebody to put it back."""
    inspected = replace(xid79(sequence=8), disposition=Disposition.INSPECT)
    reason = "wheeltapper: hardware/gpu_xid xid=79 gpu=0000:3b:00 job=9 at=1970-01-01T00:16:40Z: reboot, then inspect"
    slurm = FakeSlurm(node(states=("IDLE", "DRAIN"), reason=reason))

    ask(ledger, slurm, xid79(), inspected)

    assert [(past.reason, past.disposition.value) for past in ledger.quarantines()] == [(reason, "inspect")]
    assert slurm.asked == []
