"""A job that slurmctld takes for running, although each of its nodes has told that it is over."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.slurm.fake import job
from wheeltapper.wire import JobStay
from wheeltapper_slurm.ghosts import is_over

RUNS = job(state="RUNNING", node_list="n[1-2]", start=900.0, end=None)


def told(epilog_at: float | None = 1100.0, prolog_at: float | None = 901.0) -> JobStay:
    return JobStay("12", prolog_at, epilog_at)


BOTH = {"n1": told(), "n2": told()}


def test_it_is_over_when_each_node_says_so():
    assert is_over(RUNS, BOTH)


def test_one_that_ended_at_once_is_known_by_its_prologs():
    assert is_over(replace(RUNS, start=901.0), {"n1": told(901.5), "n2": told(902.0)})


@pytest.mark.parametrize("prolog_at", [None, 897.0], ids=["nobody knows of a prolog", "a clock that is slow"])
def test_an_epilog_long_after_the_start_tells_too(prolog_at):
    assert is_over(RUNS, {"n1": told(), "n2": told(prolog_at=prolog_at)})


@pytest.mark.parametrize(
    ("record", "stays"),
    [
        pytest.param(RUNS, {"n1": told()}, id="one node has not told"),
        pytest.param(RUNS, {"n1": told(), "n2": told(None)}, id="one node has run a prolog alone"),
        pytest.param(replace(RUNS, start=1098.0), BOTH, id="the epilogs may be of the attempt before"),
        pytest.param(
            RUNS,
            {"n1": told(), "n2": told(prolog_at=800.0)},
            id="a late epilog, but the prolog was of the attempt before",
        ),
        pytest.param(replace(RUNS, state="COMPLETING"), BOTH, id="slurmctld knows of the end"),
        pytest.param(replace(RUNS, state="PENDING"), BOTH, id="it waits"),
        pytest.param(replace(RUNS, het_leader="11"), BOTH, id="a part of a heterogeneous job"),
        pytest.param(replace(RUNS, start=None), BOTH, id="nobody knows since when"),
        pytest.param(replace(RUNS, node_list=""), BOTH, id="nobody knows where"),
    ],
)
def test_any_doubt_leaves_it_alone(record, stays):
    assert not is_over(record, stays)
