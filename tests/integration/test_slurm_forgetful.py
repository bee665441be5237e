"""A slurmctld that is killed and has forgotten what it had confirmed: requeues, drains and releases are done again."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from tests.integration.slurm_desk import ENDED, Desk, cluster, moved
from tests.unit.make import BOOT, logged, xid79
from tests.unit.slurm.fake import node
from wheeltapper.ledger.model import Outcome
from wheeltapper.policy.reason import format_reason
from wheeltapper.wire import JobStay, Leave, LogReport, Report
from wheeltapper_slurm import spool
from wheeltapper_slurm.lasting import SAVED_S

TRANSIENT = logged("network/transport")


def started(at: Desk, when: float) -> None:
    """Let slurmctld say that it was started *when*, in Unix seconds."""
    at.slurm.started = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(when))


def requeues(at: Desk) -> int:
    return at.slurm.asked.count(("requeue", "14"))


def decided(at: Desk, *findings) -> None:
    """An attempt ended, all was reported, and what followed was done."""
    started(at, 100.0)
    at.ended()
    at.reports(*findings, logs=[] if findings else [TRANSIENT])
    at.round()
    assert requeues(at) == 1
    assert {act.outcome for act in at.ledger.acts()} <= {Outcome.DONE, Outcome.FAILED}


def test_a_requeue_that_slurmctld_has_forgotten_is_done_again(desk):
    at = desk()
    decided(at)

    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="FAILED")
    started(at, at.now + 3.0)
    at.now += 5.0
    at.round()

    assert requeues(at) == 2
    assert at.slurm.jobs["14"].state == "PENDING"
    assert len(at.told()) == 1


def test_an_end_that_slurmctld_has_forgotten_too_is_no_reason_to_lose_the_requeue(desk):
    """It takes the job for running, until it asks the node half an hour later."""
    at = desk()
    decided(at)

    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="RUNNING")
    started(at, at.now + 3.0)
    at.now += 5.0
    at.round()

    assert requeues(at) == 2
    assert at.slurm.jobs["14"].state == "PENDING"


def test_what_slurmctld_has_kept_is_not_done_again(desk):
    at = desk()
    decided(at)

    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="RUNNING", start=at.now + 1.0)
    started(at, at.now + 3.0)
    at.now += 5.0
    at.round()

    assert requeues(at) == 1


def test_what_ended_a_job_that_was_moved_stays_on_its_record(desk):
    at = desk(cluster(state="RUNNING", node_list="n[1-2]", end=None))
    moved(at)
    before = [act for act in at.ledger.acts() if act.kind == "end"]
    started(at, at.now + 3.0)
    at.now += 5.0
    at.round()

    assert [act for act in at.ledger.acts() if act.kind == "end"] == before
    assert [asked for asked in at.slurm.asked if asked[0] == "end"] == [("end", "14")]


def test_what_was_done_long_before_slurmctld_was_started_was_saved(desk):
    at = desk()
    decided(at)

    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="FAILED")
    at.now += SAVED_S + 1.0
    at.round()
    started(at, at.now + 1.0)
    at.now += 5.0
    at.round()

    assert requeues(at) == 1
    assert at.journal.deeds() == []


def test_a_drain_that_slurmctld_has_forgotten_is_no_persons_wish(desk):
    at = desk()
    decided(at, xid79(at=1000.0))
    reason = asyncio.run(at.slurm.node("n2")).reason
    at.slurm.put_back("n2")
    started(at, at.now + 3.0)

    at.now += 20.0
    at.round()

    out = asyncio.run(at.slurm.node("n2"))
    assert (out.drained, out.reason) == (True, reason)
    assert [past.outcome for past in at.ledger.quarantines(node="n2")] == [Outcome.DONE]


def test_a_drain_that_was_told_in_the_second_of_a_start_can_be_forgotten_at_the_next(desk):
    """Whole seconds do not tell whether the start came first; a look that finds the drain proves nothing then."""
    at = desk()
    decided(at, xid79(at=1000.0))
    (deed,) = (each for each in at.journal.deeds() if each.kind == "drain")
    started(at, int(deed.since))
    at.now += 3.0
    at.round()
    at.slurm.put_back("n2")
    started(at, at.now + 1.0)
    at.now += 3.0

    answer = at.hear(Leave("n2", BOOT, "prolog", (xid79(at=1000.0),), "15"))

    assert (answer.out, answer.released) == (True, False)
    assert asyncio.run(at.slurm.node("n2")).drained


def test_so_is_the_drain_by_which_a_node_took_itself_out_while_we_were_away(desk):
    """Its agent drains it when the service gives no answer, and asks for leave when it is back."""
    at = desk()
    started(at, 100.0)
    reason = format_reason(xid79(at=1000.0), "15", at.now)
    at.slurm.set_node(node("n2", ("IDLE", "DRAIN"), reason))
    assert at.hear(Leave("n2", BOOT, "epilog", (xid79(at=1000.0),), "15")).out
    at.slurm.put_back("n2")
    started(at, at.now + 1.0)
    at.now += 20.0
    at.round()

    assert asyncio.run(at.slurm.node("n2")).reason == reason
    assert [past.outcome for past in at.ledger.quarantines(node="n2")] == [Outcome.DONE]


def test_a_node_whose_drain_was_forgotten_is_refused_jobs_at_once(desk):
    """Its next prolog may ask before the service has looked."""
    at = desk()
    decided(at, xid79(at=1000.0))
    at.slurm.put_back("n2")
    started(at, at.now + 3.0)
    at.now += 4.0

    answer = at.hear(Leave("n2", BOOT, "prolog", (xid79(at=1000.0),), "15"))

    assert (answer.out, answer.released) == (True, False)


def test_a_person_who_puts_a_node_back_at_once_is_respected(desk):
    at = desk()
    decided(at, xid79(at=1000.0))
    at.slurm.put_back("n2")

    for _ in range(3):
        at.now += 20.0
        at.round()

    assert not asyncio.run(at.slurm.node("n2")).drained
    assert [past.outcome for past in at.ledger.quarantines(node="n2")] == [Outcome.DONE, Outcome.UNDONE]


def test_a_release_that_slurmctld_has_forgotten_leaves_no_orphan_drain(desk):
    at = desk()
    decided(at, xid79(at=1000.0))
    reason = asyncio.run(at.slurm.node("n2")).reason
    [out] = at.ledger.quarantines(node="n2")
    at.now += 100.0
    asyncio.run(at.parts.gate.release(out))
    at.slurm.set_node(node("n2", ("IDLE", "DRAIN"), reason))
    started(at, at.now + 3.0)
    at.now += 5.0

    at.round()

    assert not asyncio.run(at.slurm.node("n2")).drained


@pytest.mark.parametrize("slurms", ["Epilog error", "Prolog error"])
def test_slurms_own_word_for_our_failing_hook_gets_our_reason_and_our_record(desk, slurms):
    """Its hook failed while nobody could be told why; later the decision on its job says it."""
    at = desk()
    at.slurm.set_node(node("n2", ("IDLE", "DRAIN"), slurms))

    decided(at, xid79(at=1000.0))

    assert asyncio.run(at.slurm.node("n2")).reason.startswith("wheeltapper: hardware/gpu_xid xid=79")
    assert [past.outcome for past in at.ledger.quarantines(node="n2")] == [Outcome.DONE]


@pytest.mark.parametrize(
    ("started_at", "told"),
    [
        pytest.param(ENDED + 1.0, 1, id="slurmctld was started anew, and ends the job again when it finds it missing"),
        pytest.param(100.0, 2, id="it was not: slurmd leaves the prolog out of a job that returns at once"),
    ],
)
def test_accounts_without_a_prolog_are_of_a_new_attempt_unless_slurmctld_was_started_anew(desk, started_at, told):
    at = desk()
    decided(at)
    started(at, started_at)
    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="PENDING", start=ENDED + 500.0)
    at.ended("14.2")
    for name in ("n1", "n2"):
        at.journal.receive(Report(name, BOOT, JobStay("14", None, ENDED + 3.0)), at.now)

    for _ in range(3):
        at.now += 70.0
        at.round()

    assert len(at.told()) == told
    assert at.journal.attempts() == []


@pytest.mark.parametrize(
    ("began_after", "told"),
    [
        pytest.param(0.0, 1, id="in the second of our requeue, which met a job whose end was forgotten"),
        pytest.param(1.0, 2, id="a second later: the next attempt, whose node has failed"),
    ],
)
def test_our_own_requeue_may_bring_slurmctld_to_tell_of_an_end_once_more(desk, began_after, told):
    """22.05 shows the second of a requeue as the start of what was requeued; no node has anything to say of it."""
    at = desk()
    at.now = ENDED + 10.3
    decided(at)
    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="COMPLETING", start=int(at.now) + began_after)
    at.ended("14.2", at=at.now + began_after + 0.1, SLURM_JOB_EXIT_CODE2="0:0")
    at.now += began_after + 0.2
    at.round()
    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="PENDING")

    at.now += 70.0
    at.round()

    assert len(at.told()) == told
    assert at.journal.attempts() == []


def test_an_end_that_is_told_again_does_not_take_the_next_attempts_accounts_for_its_own(desk):
    """It began three seconds after that end, less than clocks may be wrong; our requeue stands between the two."""
    at = desk()
    decided(at)
    started(at, ENDED)
    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="PENDING", start=None)
    at.ended("14.2", at=ENDED + 0.3)
    at.round()

    at.now = began = ENDED + 3.0
    for name in ("n1", "n2"):
        at.journal.receive(Report(name, BOOT, JobStay("14", began, began + 0.1)), at.now)
    at.journal.receive(LogReport("n1", JobStay("14", began, began + 0.1), (logged("software/oom"),)), at.now)
    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="FAILED", start=began - 0.5, end=began + 0.2)
    at.round()
    assert len(at.told()) == 1
    at.ended("14.3", at=began + 0.2)
    at.now += 70.0
    at.round()

    assert [each.diagnosis.label for each in at.told()] == ["network/transport", "software/oom"]
    assert at.journal.attempts() == at.journal.reports("14") == []


def test_a_requeue_that_we_were_killed_in_was_done_before_the_job_was_seen_to_wait(desk):
    at = desk()
    at.journal.requeue("14", "14@900", 1000.0)
    assert at.journal.requeued("14") == (1000.0, 1000.0)
    at.journal.requeue("14", "14@900", 1001.0)
    at.journal.note_requeued("14", "14@900", 1003.0)
    at.journal.note_requeued("14", "14@900", 1009.0)
    assert at.journal.requeued("14") == (1000.0, 1003.0)
    at.journal.requeue("14", "14@900", 1020.0)
    at.journal.note_requeued("14", "14@850", 1030.0)
    assert at.journal.requeued("14") == (1020.0, 1020.0)


@pytest.mark.parametrize(
    "shown",
    [
        {"state": "RUNNING", "start": 900.0},
        {"state": "RUNNING", "start": 800.0},
        {"state": "COMPLETING", "start": 800.0, "ended_as": "FAILED"},
        {"state": "FAILED", "start": 800.0, "end": 850.0},
    ],
    ids=["it runs", "an attempt before it runs", "or completes", "or has failed"],
)
def test_a_completed_attempt_that_slurmctld_has_forgotten_is_no_interruption(desk, shown):
    """An exit code of 0 is all that is left of it. In a moment slurmctld will have gone on from there."""
    at = desk(cluster(**shown))
    at.ended(SLURM_JOB_EXIT_CODE2="0:0", SLURM_JOB_START_TIME="900")
    at.reports()
    at.round()

    assert at.told() == []
    assert at.journal.attempts() == []


def test_a_job_that_has_gone_on_since_an_attempt_of_unknown_start_is_not_requeued_again(desk):
    at = desk(cluster(state="PENDING", start=None))
    at.ended()
    at.reports(logs=[TRANSIENT])
    at.round()
    assert [act.value for act in at.ledger.acts() if act.kind == "requeue"] in ([], ["0"])
    asked = requeues(at)

    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="COMPLETED", start=ENDED + 2.0)
    for act in at.ledger.acts():
        at.ledger.plan_again(act.attempt)
    at.now += 5.0
    at.round()

    assert requeues(at) == asked


def test_what_a_killed_hook_began_to_write_goes_and_what_is_set_aside_stays(tmp_path):
    names = (".14.1", ".wrong-14.2", "14.3")
    for name in names:
        (tmp_path / name).touch()

    spool.sweep(tmp_path, time.time() - 60.0)
    assert {each.name for each in tmp_path.iterdir()} == set(names)
    spool.sweep(tmp_path, time.time() + 60.0)
    assert {each.name for each in tmp_path.iterdir()} == {".wrong-14.2", "14.3"}
