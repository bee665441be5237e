"""An end that slurmctld has forgotten and never finds out: the nodes have told of it, and the job is requeued."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.integration.slurm_desk import ENDED, Desk, cluster
from tests.unit.make import attempt, logged
from tests.unit.slurm.fake import FakeSlurm, node
from wheeltapper.errors import SchedulerError
from wheeltapper_slurm.ghosts import MOST, PAUSE_S, WAIT_S
from wheeltapper_slurm.lasting import AWAY_S


def ghost(**changes):
    return cluster(**{"state": "RUNNING", "node_list": "n[1-2]", "end": None, **changes})


def at_once(at: Desk) -> None:
    """Both nodes have told of the end of job 14; slurmctld was started a moment later, and knows nothing of it."""
    at.slurm.started = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(ENDED + 2.0))
    at.reports()
    at.round()


def later(at: Desk, seconds: float) -> list[tuple[str, ...]]:
    at.now += seconds
    at.round()
    return [asked for asked in at.slurm.asked if asked[0] == "requeue"]


def test_it_is_requeued_when_slurmctld_has_had_its_time_to_hear_of_it(desk):
    at = desk(ghost())
    at_once(at)
    assert later(at, WAIT_S - PAUSE_S) == []
    assert later(at, PAUSE_S + 3.0) == [("requeue", "14")]
    assert at.slurm.jobs["14"].state == "PENDING"


def test_it_is_requeued_once(desk):
    at = desk(ghost())
    at_once(at)
    later(at, WAIT_S + 3.0)
    assert later(at, WAIT_S) == [("requeue", "14")]


def test_a_slurmctld_that_is_just_back_has_its_time_too(desk):
    """slurmstepd has waited for it all the while, and is about to tell it of the end."""
    at = desk(ghost())
    at_once(at)
    at.slurm.started = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(ENDED + 3600.0))
    assert later(at, 3600.0 + WAIT_S / 2) == []


def test_one_that_does_not_answer_is_asked_again(desk):
    at = desk(ghost())
    at_once(at)
    at.slurm.down = True
    with pytest.raises(Exception, match="does not answer"):
        later(at, WAIT_S + 3.0)
    at.slurm.down = False
    assert later(at, PAUSE_S) == [("requeue", "14")]


@pytest.mark.parametrize(
    "changes",
    [{"batch": False}, {"requeueable": False}, {"comment": "wheeltapper=off"}],
    ids=["interactive", "no-requeue", "its user does not want it"],
)
def test_one_that_may_not_be_requeued_is_told_to_people(desk, caplog, changes):
    at = desk(ghost(**changes))
    at_once(at)
    assert later(at, WAIT_S + 3.0) == []
    assert (
        "job 14: its nodes say that it is over, slurmctld that it runs; it may not be requeued: scancel 14"
        in caplog.text
    )


def test_outside_of_mode_full_no_job_is_touched(desk):
    at = desk(ghost(), mode="quarantine")
    at_once(at)
    assert later(at, WAIT_S + 3.0) == []


def test_a_refusal_is_told_and_keeps_nothing_else_waiting(desk, caplog):
    at = desk(ghost())
    at_once(at)

    async def refuse(job):
        raise SchedulerError("Requested operation is presently disabled")

    at.slurm.requeue = refuse
    later(at, WAIT_S + 3.0)
    assert "job 14: Requested operation is presently disabled" in caplog.text
    assert "bug" not in caplog.text


# Jobs on which all is decided: their reports are claimed, and slurmctld has forgotten the end that it had told.


def decided(at: Desk, *findings, code: str = "1:0", state: str = "FAILED", when: float = ENDED) -> None:
    """Job 14 ended, its end was recorded, and slurmctld, killed a moment later, takes it for running."""
    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state=state)
    started(at, 100.0)
    at.ended(at=when, SLURM_JOB_EXIT_CODE2=code)
    at.reports(logs=findings)
    at.round()
    assert at.journal.attempts() == []
    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="RUNNING", end=None)
    started(at, ENDED + 2.0)


def started(at: Desk, when: float) -> None:
    at.slurm.started = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(when))


def done(at: Desk, seconds: float) -> list[tuple[str, ...]]:
    at.now += seconds
    at.round()
    return [asked for asked in at.slurm.asked if asked[0] in {"requeue", "cancel"}]


BUG = logged("software/user_code")


@pytest.mark.parametrize(
    "end",
    [{"code": "1:0", "state": "FAILED"}, {"code": "0:0", "state": "COMPLETED"}],
    ids=["a bug would happen again", "it has completed"],
)
def test_what_needs_no_requeue_is_cancelled(desk, end):
    at = desk(ghost())
    decided(at, BUG, **end)
    before = [each.diagnosis.label for each in at.told()]
    assert done(at, WAIT_S - PAUSE_S) == []
    assert done(at, PAUSE_S + 3.0) == [("cancel", "14")]

    at.ended("14.2", at=at.now, SLURM_JOB_EXIT_CODE2="0:15")
    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], end=at.now)
    assert done(at, 100.0) == [("cancel", "14")]
    assert [each.diagnosis.label for each in at.told()] == before, "that end is no new one"


def test_slurmctld_may_be_back_in_the_second_in_which_the_job_ended(desk):
    at = desk(ghost())
    decided(at, BUG, when=ENDED + 0.4)
    started(at, ENDED)
    assert done(at, WAIT_S + 3.0) == [("cancel", "14")]


def test_a_requeue_that_was_decided_and_is_lost_is_done(desk):
    at = desk(ghost())
    at.slurm.refusals.add("requeue")
    decided(at, logged("network/transport"))
    at.slurm.refusals.clear()
    at.slurm.asked.clear()
    assert done(at, WAIT_S + 3.0) == [("requeue", "14")]

    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="COMPLETING", start=int(at.now))
    at.ended("14.2", at=at.now, SLURM_JOB_EXIT_CODE2="0:0")
    at.round()
    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="PENDING")
    done(at, 100.0)
    assert len(at.told()) == 1, "the end that it brings is no new one"


def test_what_slurmctld_forgets_once_more_is_done_once_more(desk):
    at = desk(ghost())
    decided(at, BUG)
    assert done(at, WAIT_S + 3.0) == [("cancel", "14")]
    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="RUNNING")
    started(at, at.now + 3.0)

    assert done(at, WAIT_S) == [("cancel", "14")]
    assert done(at, 2 * PAUSE_S) == 2 * [("cancel", "14")]


@pytest.mark.parametrize("when", [ENDED + AWAY_S + 10.0, ENDED - 2.0], ids=["it has saved that", "it was told that"])
def test_slurmctld_is_not_asked_for_what_it_cannot_have_forgotten(desk, when):
    at = desk(ghost())
    decided(at, BUG)
    started(at, when)
    looked = len(at.slurm.looked)

    assert done(at, AWAY_S + 2 * WAIT_S) == []
    assert len(at.slurm.looked) == looked


@pytest.mark.parametrize(
    "now",
    [{"start": ENDED + 60.0}, {"state": "COMPLETING"}, {"state": "PENDING"}, {"het_leader": "14"}],
    ids=["it runs again", "slurmctld knows of the end", "it waits", "a part of a heterogeneous job"],
)
def test_any_doubt_leaves_it_alone(desk, now):
    at = desk(ghost())
    decided(at, BUG)
    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], **now)

    assert done(at, WAIT_S + 3.0) == []


def test_not_all_are_asked_for_at_once(desk):
    at = desk(FakeSlurm(node("n1"), node("n2")))
    started(at, ENDED + 2.0)
    for number in range(2 * MOST + 1):
        at.ledger.record_run(attempt(key=f"{number}@900", job=str(number), start=900.0, end=ENDED))
    counts = []
    for seconds in (WAIT_S + 3.0, PAUSE_S, PAUSE_S, PAUSE_S):
        done(at, seconds)
        counts.append(len(at.slurm.looked))

    assert counts == [MOST, 2 * MOST, 2 * MOST + 1, 2 * MOST + 1]
