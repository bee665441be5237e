"""What a job's keeper knows of its pods and of their nodes, in whichever order it hears of them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.unit.make import BOOT, xid79
from tests.unit.operator.fake import FakeApi
from wheeltapper import config
from wheeltapper.verdict import State
from wheeltapper_operator.jobkeeper import JobKeeper
from wheeltapper_operator.jobs import BATCH, job
from wheeltapper_operator.kueue import Kueue
from wheeltapper_operator.objects import NodeHealth
from wheeltapper_operator.pace import Pace
from wheeltapper_operator.parts import LeadsNoMoreError, Parts
from wheeltapper_operator.pods import Pod
from wheeltapper_operator.reflector import Change

NOW = 2_000.0
KEY = "team/train"


def a_job(uid="j-1", *, suspended=False):
    meta = {"name": "train", "namespace": "team", "uid": uid, "resourceVersion": "5"}
    return job({"metadata": meta, "spec": {"template": {}, "suspend": suspended}}, BATCH)


def a_pod(uid="p-1", **changes) -> Pod:
    values = {"node": "n1", "phase": "Running", "leaving": False, "failed": (), "disrupted": False, "exit_code": 0}
    return Pod("train-0", "team", uid, "train", **{**values, "started": NOW - 100, "record": "", **changes})


def a_fault(at=NOW) -> NodeHealth:
    return NodeHealth("n1", BOOT, State.FAIL, at, (xid79("n1", at=at),))


FAILED = {"phase": "Failed", "failed": (("main", 0),), "exit_code": 1, "record": "{}"}


@pytest.fixture
def keeper():
    parts = Parts(FakeApi(), config.parse(""), None, Pace(1.0, 1), None, lambda: True, lambda: NOW)
    nodes = SimpleNamespace(listeners=[], healths=[], nodes={})
    made = JobKeeper(parts, BATCH, nodes, Kueue(parts))
    made.jobs._objects[KEY] = a_job()
    made.test_nodes = nodes
    return made


def endings(keeper):
    return {key: (each.fault, sorted(each.records)) for key, each in keeper._endings.items()}


def test_a_pod_that_was_made_anew_while_a_watch_was_broken_leaves_nothing_of_the_one_before(keeper):
    keeper._hear_pod(Change("team/train-0", None, a_pod()))
    keeper._hear_pod(Change("team/train-0", a_pod(), a_pod("p-2")))
    keeper._hear_pod(Change("team/train-0", a_pod("p-2"), None))

    assert len(keeper._book) == 0
    assert not keeper._book.running_on("n1")


def test_a_job_that_was_made_anew_does_not_end_as_the_one_before(keeper):
    keeper._hear_pod(Change("team/train-0", None, a_pod(**FAILED)))
    assert endings(keeper) == {KEY: ("", ["p-1"])}

    keeper._hear_job(Change(KEY, a_job(), a_job("j-2")))
    assert endings(keeper) == {}


def hear_job(keeper, *, suspended):
    new = a_job(suspended=suspended)
    old, keeper.jobs._objects[KEY] = keeper.jobs._objects.get(KEY), new
    keeper._hear_job(Change(KEY, old, new))


LEAVES = {**FAILED, "leaving": True, "exit_code": 137}


def test_a_pod_that_ends_late_after_its_job_was_suspended_and_resumed_is_no_new_end(keeper):
    keeper._hear_pod(Change("team/train-0", None, a_pod()))
    hear_job(keeper, suspended=True)
    hear_job(keeper, suspended=False)
    keeper._hear_pod(Change("team/train-0", a_pod(), a_pod(leaving=True)))
    keeper._hear_pod(Change("team/train-0", a_pod(leaving=True), a_pod(**LEAVES)))

    assert endings(keeper) == {}
    keeper._catch_up()
    assert endings(keeper) == {}, "nor is it for an operator that leads from now on"


def test_a_pod_that_was_leaving_when_this_operator_first_saw_its_suspended_job_is_no_new_end(keeper):
    hear_job(keeper, suspended=True)
    keeper._hear_pod(Change("team/train-0", None, a_pod(leaving=True)))
    hear_job(keeper, suspended=False)
    keeper._hear_pod(Change("team/train-0", a_pod(leaving=True), a_pod(**LEAVES)))

    assert endings(keeper) == {}


@pytest.mark.parametrize("pod", [a_pod("p-2", **FAILED), a_pod("p-2", **LEAVES)], ids=["fails", "is ended"])
def test_a_pod_of_the_attempt_after_a_suspension_ends_as_any_other(keeper, pod):
    """Also when it is heard of before the job's being resumed."""
    keeper._hear_pod(Change("team/train-0", None, a_pod()))
    hear_job(keeper, suspended=True)
    keeper._hear_pod(Change("team/train-0", a_pod(), None))
    keeper._hear_pod(Change("team/train-0", None, a_pod("p-2")))
    hear_job(keeper, suspended=False)
    keeper._hear_pod(Change("team/train-0", a_pod("p-2"), pod))

    assert endings(keeper) == {KEY: ("", ["p-2"])}


def test_what_is_known_of_a_pod_that_was_sent_away_goes_with_it(keeper):
    keeper._hear_pod(Change("team/train-0", None, a_pod()))
    hear_job(keeper, suspended=True)
    keeper._hear_pod(Change("team/train-0", a_pod(), a_pod("p-2")))
    keeper._hear_pod(Change("team/train-0", a_pod("p-2"), None))

    assert not keeper._book._sent_away


def test_a_pod_that_failed_before_its_job_was_listed_is_found_when_this_operator_leads(keeper):
    keeper.jobs._objects.clear()
    keeper._hear_pod(Change("team/train-0", None, a_pod(**FAILED)))
    keeper.jobs._objects[KEY] = a_job()
    assert endings(keeper) == {}

    keeper._catch_up()
    assert endings(keeper) == {KEY: ("", ["p-1"])}


def test_a_fault_that_came_under_a_running_job_is_found_when_this_operator_leads(keeper):
    keeper._hear_pod(Change("team/train-0", None, a_pod()))
    keeper.test_nodes.healths.append(a_fault())

    keeper._catch_up()
    assert endings(keeper) == {KEY: ("n1", [])}


@pytest.mark.parametrize(
    "pod", [a_pod(started=NOW + 1), a_pod(node="n2"), a_pod(phase="Pending")], ids=["came later", "elsewhere", "waits"]
)
def test_a_fault_that_is_none_of_the_jobs_is_left_out_when_this_operator_leads(keeper, pod):
    keeper._hear_pod(Change("team/train-0", None, pod))
    keeper.test_nodes.healths.append(a_fault())

    keeper._catch_up()
    assert endings(keeper) == {}


def test_who_leads_no_more_does_not_write(keeper):
    parts = replace(keeper._parts, leads=lambda: False)

    with pytest.raises(LeadsNoMoreError):
        asyncio.run(parts.turn())
