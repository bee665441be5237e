"""A job that slurmctld takes for running, although each of its nodes has told that it is over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.make import BOOT
from tests.unit.slurm.fake import job
from wheeltapper.wire import JobStay, Report
from wheeltapper_slurm.ghosts import is_over

RUNS = job(state="RUNNING", node_list="n[1-2]", start=900.0, end=None)


def told(node: str, epilog_at: float | None = 1100.0, prolog_at: float | None = 901.0) -> Report:
    return Report(node, BOOT, JobStay("12", prolog_at, epilog_at), ())


BOTH = (told("n1"), told("n2"))


def test_it_is_over_when_each_node_says_so():
    assert is_over(RUNS, BOTH)


def test_one_that_ended_at_once_is_known_by_its_prologs():
    assert is_over(RUNS, (told("n1", 901.5), told("n2", 902.0)))


def test_the_clock_of_a_node_may_be_slow():
    assert is_over(RUNS, (told("n1"), told("n2", prolog_at=897.0)))


@pytest.mark.parametrize(
    ("record", "reports"),
    [
        pytest.param(RUNS, (told("n1"),), id="one node has not told"),
        pytest.param(RUNS, (told("n1"), told("n2", None)), id="one node has run a prolog alone"),
        pytest.param(RUNS, (told("n1"), told("n2", prolog_at=None)), id="of which attempt, one node does not say"),
        pytest.param(RUNS, (told("n1"), told("n2", prolog_at=800.0)), id="a late epilog of the attempt before"),
        pytest.param(replace(RUNS, start=1098.0), BOTH, id="the epilogs may be of the attempt before"),
        pytest.param(replace(RUNS, start=None), BOTH, id="nobody knows since when"),
        pytest.param(replace(RUNS, node_list=""), BOTH, id="nobody knows where"),
    ],
)
def test_any_doubt_leaves_it_alone(record, reports):
    assert not is_over(record, reports)
