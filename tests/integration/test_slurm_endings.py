"""How an attempt ended, when its exit code does not say."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from tests.integration.slurm_desk import ENDED, cluster
from tests.unit.make import BOOT, xid79
from tests.unit.slurm.fake import FakeSlurm, job, node
from wheeltapper.ledger.totals import totals
from wheeltapper.wire import JobStay, LogReport, Report
from wheeltapper_slurm.records import PastAttempt


def test_a_node_that_slurmctld_has_given_up_is_not_waited_for(desk):
    slurm = FakeSlurm(
        node("n1"), node("n2", ("DOWN", "NOT_RESPONDING")), jobs=(job(id="14", state="PENDING", exit_code=0),)
    )
    at = desk(slurm)
    at.ended(SLURM_JOB_EXIT_CODE2="0:0")
    at.journal.receive(Report("n1", BOOT, JobStay("14", 901.0, ENDED)), at.now)
    at.journal.receive(LogReport("n1", JobStay("14", 901.0, ENDED)), at.now)
    at.round()
    assert at.told() == []

    at.now = ENDED + 3.0
    at.round()

    [told] = at.told()
    assert told.attempt.ending.value == "node_fail"
    assert told.diagnosis.label == "hardware/node_down"
    assert told.attempt.scheduler_requeued
    assert not told.decision.job.requeue
    assert not [asked for asked in slurm.asked if asked[0] == "requeue"], "Slurm has done it already"


def lost(*names: str, **changes) -> FakeSlurm:
    """Slurm has requeued job 14 since nodes failed: it is PENDING again before anybody can ask when it began."""
    nodes = (node(each, ("DOWN", "NOT_RESPONDING") if each in names else ("IDLE",)) for each in ("n1", "n2"))
    return FakeSlurm(*nodes, jobs=(job(id="14", state="PENDING", exit_code=0, start=None, end=None, **changes),))


def test_a_job_all_of_whose_nodes_have_failed_is_on_record_although_nobody_has_reported(desk):
    at = desk(lost("n1", "n2"))
    at.slurm.books = [PastAttempt("NODE_FAIL", 900.0, ENDED)]
    at.ended(SLURM_JOB_EXIT_CODE2="0:0")
    at.round()
    at.now = ENDED + 3.0
    at.round()

    [told] = at.told()
    assert (told.attempt.ending.value, told.diagnosis.label) == ("node_fail", "hardware/node_down")
    assert told.attempt.start == 900.0, "slurmdbd knows"


@pytest.mark.parametrize(
    ("started", "told"),
    [
        pytest.param(100.0, 2, id="slurmctld has told each end once: the next attempt's node has failed too"),
        pytest.param(ENDED + 4.0, 1, id="it was started since, and tells the end again"),
    ],
)
def test_a_second_node_failure_is_one_of_its_own_unless_slurmctld_was_started_since(desk, started, told):
    at = desk(lost("n1", "n2"))
    at.slurm.started = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(started))
    for name, ended in (("14.1", ENDED), ("14.2", ENDED + 30.0)):
        at.ended(name, at=ended, SLURM_JOB_EXIT_CODE2="0:0")
        at.now = ended + 0.5
        at.round()
        at.now = ended + 3.0
        at.round()

    assert len(at.told()) == told
    assert at.journal.attempts() == []


@pytest.mark.parametrize("shown", [None, ENDED], ids=["of the next attempt, none yet", "the second of the requeue"])
def test_what_slurm_requeues_began_when_its_first_prolog_ran(desk, shown):
    """22.05 shows another start: the hours that are lost would be none."""
    at = desk(lost("n2"))
    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="COMPLETING" if shown else "PENDING", start=shown)
    at.ended(SLURM_JOB_EXIT_CODE2="0:0")
    at.round()
    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="PENDING")
    at.journal.receive(Report("n1", BOOT, JobStay("14", 901.0, ENDED)), at.now)
    at.journal.receive(LogReport("n1", JobStay("14", 901.0, ENDED)), at.now)
    at.now = ENDED + 3.0
    at.round()

    [told] = at.told()
    assert (told.attempt.ending.value, told.attempt.start, told.attempt.end) == ("node_fail", 901.0, ENDED)


def test_when_what_slurm_requeues_began_stays_as_it_was_told(desk):
    """From 24.11 on EpilogSlurmctld is told."""
    at = desk(lost("n2"))
    at.ended(SLURM_JOB_EXIT_CODE2="0:0", SLURM_JOB_START_TIME="900")
    at.journal.receive(Report("n1", BOOT, JobStay("14", 901.0, ENDED)), at.now)
    at.journal.receive(LogReport("n1", JobStay("14", 901.0, ENDED)), at.now)
    at.now = ENDED + 3.0
    at.round()

    assert [told.attempt.start for told in at.told()] == [900.0]


def test_exit_code_0_waits_until_slurm_says_how_it_ended(desk):
    at = desk(cluster(state="COMPLETING", exit_code=0))
    at.ended(SLURM_JOB_EXIT_CODE2="0:0")
    at.reports()
    at.round()
    assert at.told() == []

    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="TIMEOUT")
    at.now += 1.0
    at.round()

    assert [told.diagnosis.label for told in at.told()] == ["scheduler/time_limit"]


@pytest.mark.parametrize(
    ("books", "labels"),
    [
        pytest.param([PastAttempt("COMPLETED", 900.0, ENDED)], [], id="slurmdbd knows"),
        pytest.param([], ["unknown/unknown"], id="nobody knows"),
    ],
)
def test_a_job_that_goes_on_completing_ended_as_slurmdbd_says(desk, books, labels):
    """A node that died at its job's end keeps it in COMPLETING, on 22.05 without a word of how it ended."""
    at = desk(cluster(state="COMPLETING", exit_code=0))
    at.slurm.books = books
    at.ended(SLURM_JOB_EXIT_CODE2="0:0")
    at.reports()
    at.round()

    at.now += 3600.0
    at.round()

    assert [told.diagnosis.label for told in at.told()] == labels
    assert at.journal.attempts() == []


def test_a_job_that_completed_is_no_interruption_and_counts_as_a_run(desk):
    at = desk(cluster(state="COMPLETED", exit_code=0))
    at.ended(SLURM_JOB_EXIT_CODE2="0:0")
    at.reports()
    at.round()

    assert at.told() == []
    assert at.journal.attempts() == []
    assert [each.runs for each in totals(at.ledger, 0.0, 1e12).exposures] == [1]


def test_what_slurm_itself_may_requeue_at_once_is_left_to_it(desk):
    """Expedited requeue (25.11) waits for the epilogs; a requeue of ours beside it would be a second one."""
    at = desk(cluster(state="COMPLETING", expedited=True))
    at.ended()
    at.reports(xid79(at=1000.0))
    at.round()
    assert at.told() == []

    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="EXPEDITING")
    at.now += 1.0
    at.round()

    [told] = at.told()
    assert told.decision.job.reason == "the scheduler has requeued the job already"
    assert [asked for asked in at.slurm.asked if asked[0] == "requeue"] == []
