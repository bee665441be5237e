"""An end that slurmctld has forgotten and never finds out: the nodes have told of it, and the job is requeued."""

from __future__ import annotations

import time

import pytest

from tests.integration.slurm_desk import ENDED, Desk, cluster
from wheeltapper_slurm.ghosts import PAUSE_S, WAIT_S


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


@pytest.mark.parametrize("changes", [{"batch": False}, {"requeueable": False}], ids=["interactive", "no-requeue"])
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
