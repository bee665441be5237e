"""Exclusions that we made are undone when the node is back; those of the user never are."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.slurm.fake import FakeSlurm, job, node
from tests.unit.test_release import out
from wheeltapper.config import Config
from wheeltapper.ledger.model import Outcome
from wheeltapper.ledger.store import Ledger
from wheeltapper_slurm import exclusions
from wheeltapper_slurm.arrivals import Arrivals
from wheeltapper_slurm.healths import Healths
from wheeltapper_slurm.journal import Journal
from wheeltapper_slurm.parts import Parts
from wheeltapper_slurm.quarantine import Gate

GONE, BACK = out(node="n2", at=1000.0), out(node="n2", at=3000.0, outcome=Outcome.RELEASED)
NOW = 3100.0


@pytest.fixture
def look(tmp_path):
    """Let job 12 exclude n2 by our doing and n7 by its user's, and look with what became of n2."""
    ledger, journal = Ledger(tmp_path / "ledger.db"), Journal(tmp_path / "journal.db")

    def make(*history, nodes=None, record=None, policy=None, avoided=(), now=NOW):
        journal.exclude("12", ["n2"], 1001.0)
        journal.avoid("12", avoided, 1001.0)
        slurm = FakeSlurm(*(nodes or [node("n2")]), jobs=(record,) if record else ())
        config = Config(policy=policy or {"mode": "full"})
        gate = Gate(slurm, ledger, config.policy)
        parts = Parts(config, slurm, ledger, journal, gate, Arrivals(), Healths(120.0), lambda: now)
        asyncio.run(exclusions.look(parts, history, asyncio.run(slurm.nodes()), now))
        return slurm.asked, [each.node for each in journal.exclusions()]

    make.journal = journal
    yield make
    ledger.close()
    journal.close()


def waiting(**changes):
    return job(state="PENDING", excluded=("n2", "n7"), **changes)


def test_a_waiting_job_may_use_a_node_again_that_is_back_and_keeps_the_users_own_exclusions(look):
    assert look(GONE, BACK, record=waiting()) == ([("update", "12", "ExcNodeList", "n7")], [])


def test_a_list_that_held_only_ours_is_cleared(look):
    asked, _ = look(GONE, BACK, record=job(state="PENDING", excluded=("n2",)))

    assert asked == [("update", "12", "ExcNodeList", "")]


@pytest.mark.parametrize(
    ("history", "nodes"),
    [
        pytest.param((GONE,), None, id="it is still out"),
        pytest.param((), None, id="it was only suspected"),
        pytest.param((GONE, BACK), [node("n2", ("IDLE", "DRAIN"), "admin")], id="a person took it out since"),
        pytest.param((GONE, out(node="n2", at=900.0, outcome=Outcome.RELEASED)), None, id="it was back before"),
    ],
)
def test_a_node_that_is_not_back_stays_excluded(look, history, nodes):
    assert look(*history, nodes=nodes, record=waiting()) == ([], ["n2"])


def test_a_job_that_runs_is_looked_at_again_when_it_waits(look):
    assert look(GONE, BACK, record=job(state="RUNNING", excluded=("n2",))) == ([], ["n2"])


def test_a_job_that_is_gone_is_forgotten(look):
    assert look(GONE, BACK) == ([], [])


def test_what_the_user_has_changed_meanwhile_is_left_alone(look):
    assert look(GONE, BACK, record=job(state="PENDING", excluded=("n7",))) == ([], [])


def test_a_node_that_was_only_suspected_is_given_back_after_a_day(look):
    assert look(record=waiting(), now=1001.0 + exclusions.SUSPECTED_S - 1) == ([], ["n2"])
    assert look(record=waiting(), now=1001.0 + exclusions.SUSPECTED_S + 1)[1] == []


LARGE = {"mode": "full", "probation_max_nodes": 1}


@pytest.mark.parametrize(
    ("others", "asked"),
    [
        pytest.param(["n3", "n4"], [], id="others are free"),
        pytest.param(["n3"], [("update", "12", "ExcNodeList", "n7")], id="too few others"),
    ],
)
def test_a_large_job_avoids_a_node_that_is_back_while_others_are_free(look, others, asked):
    nodes = [node("n2"), node("n7"), *map(node, others)]

    assert look(GONE, BACK, nodes=nodes, record=waiting(nodes=2, partitions=("main",)), policy=LARGE) == (asked, [])


@pytest.mark.parametrize(
    ("others", "left"),
    [pytest.param(["n3"], {"n5"}, id="others are free"), pytest.param([], set(), id="too few others")],
)
def test_what_a_waiting_job_avoids_is_given_back_when_others_are_too_few(look, others, left):
    """It would wait for nodes that are taken while good enough ones stand idle."""
    record = job(state="PENDING", excluded=("n5", "n7"), partitions=("main",))

    asked, _ = look(avoided=["n5"], nodes=[node("n5"), node("n7"), *map(node, others)], record=record)

    assert look.journal.avoided("12") == left
    assert bool(asked) == (not left)


def test_what_a_job_that_is_gone_avoided_is_forgotten(look):
    look(avoided=["n5"])

    assert look.journal.avoiding() == []
