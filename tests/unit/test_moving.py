"""Which running job holds what its node proves to be broken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.make import BOOT, xid79
from wheeltapper.evidence import Disposition, Role, Source
from wheeltapper.policy.moving import struck
from wheeltapper.verdict import State
from wheeltapper.wire import Health, JobStay

MINE, OTHER = "0000:3b:00", "0000:5e:00"


def stay(job="12", began=900.0, gpus=(MINE,)):
    return JobStay(job, began, None, tuple(gpus))


def hit(*stays, finding=None):
    """The jobs that are hit, each with whether the node is sure of it."""
    health = Health("n2", BOOT, State.FAIL, 5.0, (finding or xid79(),), stays)
    return {each.stay.job: each.certain for each in struck(health)}


def about(finding, **changes):
    return replace(finding, evidence=replace(finding.evidence, **changes))


def test_the_job_that_holds_the_gpu_is_hit_and_no_other():
    assert hit(stay("12"), stay("13", gpus=[OTHER])) == {"12": True}
    assert hit(stay("12", gpus=[OTHER, MINE])) == {"12": True}
    assert hit(stay("12", gpus=[OTHER])) == {}


def test_of_several_jobs_on_one_gpu_each_is_hit():
    assert hit(stay("12"), stay("13")) == {"12": True, "13": True}


def test_a_job_whose_gpus_are_not_known_is_hit_only_when_it_is_alone_and_that_is_not_certain():
    assert hit(stay(gpus=())) == {"12": False}
    assert hit(stay(gpus=()), stay("13", gpus=())) == {}
    assert hit(stay(gpus=()), stay("13", gpus=[OTHER])) == {}


def test_a_job_without_a_gpu_is_no_rival_of_the_one_that_has_some():
    with_gpus = JobStay("12", 900.0, None, (), 8)
    assert hit(with_gpus, stay("13", gpus=())) == {"12": False}
    assert hit(with_gpus, JobStay("13", 900.0, None, (), 1)) == {}


def test_a_fault_of_no_gpu_hits_a_job_that_is_alone():
    board = about(xid79(), gpu=None)
    assert hit(stay(gpus=()), finding=board) == {"12": True}
    assert hit(stay(), stay("13", gpus=[OTHER]), finding=board) == {}


@pytest.mark.parametrize(
    ("began", "at"),
    [
        pytest.param(1000.5, 1000.0, id="the job came after the fault"),
        pytest.param(None, 1000.0, id="nobody knows when the job came"),
        pytest.param(900.0, None, id="nobody knows when the fault was"),
    ],
)
def test_only_a_fault_that_fell_into_the_stay_hits_the_job(began, at):
    assert hit(stay(began=began), finding=about(xid79(), at=at)) == {}


@pytest.mark.parametrize(
    "finding",
    [
        pytest.param(replace(xid79(), disposition=Disposition.RESTART_APP), id="it asks for a new start of the job"),
        pytest.param(replace(xid79(), role=Role.SYMPTOM), id="a symptom"),
        pytest.param(about(xid79(), source=Source.JOB_LOG), id="hearsay"),
    ],
)
def test_what_takes_no_node_out_moves_no_job(finding):
    assert hit(stay(), finding=finding) == {}


def test_the_gravest_fault_is_named_once_for_each_job():
    health = Health("n2", BOOT, State.FAIL, 5.0, (xid79(sequence=7), xid79(sequence=8)), (stay(),))
    assert [each.finding.evidence.sequence for each in struck(health)] == [7]
