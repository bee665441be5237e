"""Nodes that are out by our doing: released, rebooted, or left to a person."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.unit.make import BOOT, xid79
from tests.unit.slurm.fake import FakeSlurm, node
from wheeltapper.config import Config
from wheeltapper.evidence import Disposition
from wheeltapper.ledger.model import Outcome
from wheeltapper.ledger.store import Ledger
from wheeltapper.verdict import State
from wheeltapper.wire import Health, Leave
from wheeltapper_slurm.arrivals import Arrivals
from wheeltapper_slurm.healths import Healths
from wheeltapper_slurm.journal import Journal
from wheeltapper_slurm.keeper import Keeper
from wheeltapper_slurm.parts import Parts
from wheeltapper_slurm.quarantine import Gate

AFTER_REBOOT = "99999999-2222-3333-4444-555555555555"


class Yard:
    """A keeper with node n2 out for a fault that asks for a reboot, or for what the test says."""

    def __init__(self, folder, asks_for=Disposition.REBOOT, **policy):
        self.config = Config(policy={"mode": "full", **policy})
        self.now = 1200.0
        self.slurm = FakeSlurm(node("n1"), node("n2"))
        self.ledger = Ledger(folder / "ledger.db")
        self.journal = Journal(folder / "journal.db")
        self.healths = Healths(120.0)
        self.gate = Gate(self.slurm, self.ledger, self.config.policy, clock=lambda: self.now)
        finding = replace(xid79(), disposition=asks_for)
        asyncio.run(self.gate.ask(Leave("n2", BOOT, "epilog", (finding,), "12")))
        self.slurm.asked.clear()
        self.restart()

    def restart(self):
        """A new service on the old files."""
        parts = Parts(
            self.config, self.slurm, self.ledger, self.journal, self.gate, Arrivals(), self.healths, lambda: self.now
        )
        self.keeper = Keeper(parts)

    def look(self, state=None, *, boot_id=AFTER_REBOOT, held_s=600.0):
        """Let the node say how it is, unless it is silent, and look."""
        self.now += 15.0
        if state is not None:
            self.healths.hear(Health("n2", boot_id, state, held_s), self.now)
        asyncio.run(self.keeper.look())
        return self.slurm.asked

    def outcomes(self):
        return [past.outcome for past in self.ledger.quarantines(node="n2")]

    def reason(self):
        return asyncio.run(self.slurm.node("n2")).reason


@pytest.fixture
def yard(tmp_path):
    yards = []

    def make(**options):
        yards.append(Yard(tmp_path, **options))
        return yards[-1]

    yield make
    for each in yards:
        each.ledger.close()
        each.journal.close()


def test_a_rebooted_node_that_passes_its_checks_for_long_enough_is_released_once(yard):
    at = yard()

    assert at.look() == []
    assert at.look(State.FAIL, boot_id=BOOT) == []
    assert at.look(State.OK, held_s=30.0) == []
    assert at.look(State.OK) == [("resume", "n2")]
    assert at.look(State.OK) == [("resume", "n2")]
    assert at.outcomes() == [Outcome.DONE, Outcome.RELEASED]


def test_what_a_node_said_long_ago_releases_nothing(yard):
    at = yard()
    at.healths.hear(Health("n2", AFTER_REBOOT, State.OK, 600.0), at.now)
    at.now += 1000.0

    assert at.look() == []


def test_after_our_release_the_same_evidence_takes_the_node_out_again(yard):
    at = yard()
    at.look(State.OK)

    answer = asyncio.run(at.gate.ask(Leave("n2", BOOT, "epilog", (xid79(),), "13")))

    assert answer.out


@pytest.mark.parametrize(
    ("states", "reason"),
    [
        pytest.param(("IDLE", "DRAIN"), "admin: mine now", id="another reason"),
        pytest.param(("IDLE", "DRAIN"), "{} RMA 4711", id="an addition to ours"),
    ],
)
def test_a_node_whose_reason_a_person_changed_is_never_touched(yard, states, reason):
    at = yard(reboot=True)
    at.slurm.set_node(node("n2", states, reason.format(at.reason())))

    assert at.look(State.OK) == []
    assert at.look(State.FAIL, boot_id=BOOT) == []
    assert at.outcomes() == [Outcome.DONE]


def test_a_node_that_a_person_put_back_is_theirs_and_its_evidence_settled(yard):
    at = yard()
    at.slurm.put_back("n2")

    at.look(State.OK)

    assert at.outcomes() == [Outcome.DONE, Outcome.UNDONE]
    assert asyncio.run(at.gate.ask(Leave("n2", BOOT, "epilog", (xid79(),), "13"))).released


def test_a_node_that_goes_out_anew_while_it_is_looked_at_was_not_put_back(yard, monkeypatch):
    at = yard()
    at.slurm.put_back("n2")
    nodes, anew = at.slurm.nodes, Leave("n2", BOOT, "prolog", (xid79(sequence=8),), "13")

    async def nodes_and_then_a_fault():
        monkeypatch.undo()
        seen = await nodes()
        assert (await at.gate.ask(anew)).out
        return seen

    monkeypatch.setattr(at.slurm, "nodes", nodes_and_then_a_fault)
    at.look()

    assert at.outcomes() == [Outcome.DONE, Outcome.DONE]
    assert at.ledger.quarantines(node="n2")[-1].reason == at.reason()


def test_the_record_is_in_order_when_the_clock_is_set_back(yard):
    at = yard()
    at.now -= 900.0
    at.slurm.put_back("n2")

    at.look()
    asyncio.run(at.gate.ask(Leave("n2", BOOT, "prolog", (xid79(sequence=8),), "13")))

    assert at.outcomes() == [Outcome.DONE, Outcome.UNDONE, Outcome.DONE]


@pytest.mark.parametrize("asks_for", [Disposition.INSPECT, Disposition.REPLACE])
def test_what_must_be_inspected_or_replaced_waits_for_a_person(yard, asks_for):
    assert yard(asks_for=asks_for).look(State.OK) == []


def test_a_reset_gpu_needs_no_reboot(yard):
    at = yard(asks_for=Disposition.RESET_GPU)

    assert at.look(State.FAIL, boot_id=BOOT) == []
    assert at.look(State.OK, boot_id=BOOT) == [("resume", "n2")]


def test_a_node_whose_slurmd_is_silent_is_not_released(yard):
    at = yard()
    at.slurm.set_node(node("n2", ("IDLE", "DRAIN", "NOT_RESPONDING"), at.reason()))

    assert at.look(State.OK) == []


def test_observe_mode_releases_nothing(yard):
    at = yard()
    at.config = Config(policy={"mode": "observe"})
    at.restart()

    assert at.look(State.OK) == []


def test_a_reboot_is_asked_for_once_with_the_nodes_own_reason_also_over_a_restart(yard):
    at = yard(reboot=True)

    at.look(State.FAIL, boot_id=BOOT)
    at.look(State.FAIL, boot_id=BOOT)
    at.restart()
    at.look(State.FAIL, boot_id=BOOT)

    assert at.slurm.asked == [("reboot", "n2", at.reason())]
    assert at.look(State.OK)[1:] == [("resume", "n2")]


def test_a_cluster_without_a_reboot_program_is_asked_once(yard, caplog):
    at = yard(reboot=True)
    at.slurm.no_reboot_program = True

    with caplog.at_level("INFO"):
        at.look(State.FAIL, boot_id=BOOT)
        at.look(State.FAIL, boot_id=BOOT)

    assert len(at.slurm.asked) == 1
    assert caplog.text.count("reboot was refused: RebootProgram is not defined") == 1


def test_a_silent_slurmctld_is_asked_again(yard):
    at = yard()
    at.slurm.down = True
    with pytest.raises(Exception, match="does not answer"):
        at.look(State.OK)
    at.slurm.down = False

    assert at.look(State.OK) == [("resume", "n2")]


def test_slurmctld_is_not_asked_while_no_node_is_out(yard):
    at = yard()
    at.look(State.OK)
    at.slurm.down = True

    at.look(State.OK)
