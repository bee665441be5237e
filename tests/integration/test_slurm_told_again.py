"""Ends and accounts that are told twice."""

from __future__ import annotations

from dataclasses import replace

from tests.integration.slurm_desk import ENDED, cluster
from tests.unit.make import BOOT, logged
from wheeltapper.wire import JobStay, LogReport, Report


def test_the_same_end_told_twice_is_decided_once(desk):
    """slurmctld runs EpilogSlurmctld again after a restart."""
    at = desk()
    at.ended("14.1")
    at.ended("14.2")
    at.reports(logs=[logged("software/oom")])
    at.round()
    at.ended("14.3")
    at.now += 100.0
    at.round()

    assert len(at.told()) == 1
    assert list(at.spool.iterdir()) == []


def test_the_same_end_told_first_without_its_start_and_then_with_it_is_decided_once(desk):
    at = desk()
    record = at.slurm.jobs.pop("14")
    at.ended("14.1")
    at.round()
    at.slurm.jobs["14"] = record
    at.reports(logs=[logged("software/user_code")])
    at.round()
    at.ended("14.2")
    at.round()
    at.now += 100.0
    at.round()

    assert [each.diagnosis.label for each in at.told()] == ["software/user_code"]
    assert ("requeue", "14") not in at.slurm.asked
    assert at.journal.attempts() == []


def test_an_account_that_comes_again_does_not_stand_for_the_next_attempts(desk):
    """A node that was told to ask later reports twice, and an attempt that begins a second later may fail at once."""
    at = desk()
    at.ended()
    at.reports(logs=[logged("network/transport")])
    at.round()
    at.reports(logs=[logged("network/transport")])

    began = ENDED + 1.0
    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="FAILED", start=began)
    at.ended("14.2", at=began + 1.0)
    at.now = began + 1.5
    at.round()
    assert len(at.told()) == 1, "the second attempt's own accounts are waited for"

    stay = JobStay("14", began, began + 1.2)
    for name in ("n1", "n2"):
        at.journal.receive(Report(name, BOOT, stay, ()), at.now)
    at.journal.receive(LogReport("n1", stay, (logged("software/oom"),)), at.now)
    at.round()

    assert [each.diagnosis.label for each in at.told()] == ["network/transport", "software/oom"]
    assert at.journal.reports("14") == at.journal.log_reports("14") == []


def test_an_end_told_again_when_the_job_has_gone_on_is_no_new_interruption(desk):
    """By then slurmctld shows the next attempt's start, and no report belongs to this end."""
    at = desk(cluster(state="PENDING", start=ENDED + 120.0))
    at.ended()
    at.round()
    at.now += 100.0
    at.round()

    assert at.told() == []
    assert at.journal.attempts() == []
