"""What slurmctld may have forgotten when it was killed is looked at again: once for each of its starts."""

from __future__ import annotations

import asyncio
from datetime import datetime
from types import SimpleNamespace

import pytest

from tests.unit.slurm.fake import FakeSlurm
from wheeltapper_slurm.journal import Journal
from wheeltapper_slurm.lasting import SAVED_S, Kind, Lasting
from wheeltapper_slurm.recall import PAUSE_S, Recall

NOW = 1_700_000_000.0


class Desk:
    """A recall whose looks do the acts of an attempt again, as the service does, and write that down."""

    def __init__(self, folder):
        self.now = NOW
        self.slurm = FakeSlurm()
        self.journal = Journal(folder / "journal.db")
        self.lasting = Lasting(self.slurm, self.journal, lambda: self.now)
        self.again: list[str] = []
        ledger = SimpleNamespace(plan_again=lambda name: self.again.append(name) or True)
        parts = SimpleNamespace(journal=self.journal, ledger=ledger, clock=lambda: self.now)
        self.recall = Recall(parts, self.lasting)

    def start(self, at):
        self.slurm.started = datetime.fromtimestamp(int(at)).astimezone().strftime("%Y-%m-%dT%H:%M:%S")

    def look_for(self, seconds):
        """Look every two seconds, and do what is planned again."""
        until = self.now + seconds
        while self.now < until:
            before = len(self.again)
            asyncio.run(self.recall.look())
            if len(self.again) > before:
                self.lasting.note(Kind.ACTS, "a")
            self.now += PAUSE_S


@pytest.fixture
def desk(tmp_path):
    made = Desk(tmp_path)
    yield made
    made.journal.close()


@pytest.mark.parametrize(
    ("after", "looked_at"),
    [
        pytest.param(0.0, 0.5, id="in the deed's own second"),
        pytest.param(1.0, 2.5, id="a second later"),
        pytest.param(3.0, 9.0, id="later"),
    ],
)
def test_each_start_of_slurmctld_has_a_deed_looked_at_once_and_then_it_is_saved(desk, after, looked_at):
    desk.lasting.note(Kind.ACTS, "a")
    desk.start(NOW + after)
    desk.now += looked_at
    desk.look_for(4 * SAVED_S)

    assert desk.again == ["a"]
    assert desk.journal.deeds() == []


def test_what_is_done_again_in_the_very_second_of_the_start_is_looked_at_once_more_and_no_oftener(desk):
    """Slurm tells its start in whole seconds: that may have come after what was done again."""
    desk.lasting.note(Kind.ACTS, "a")
    desk.start(NOW + 3.0)
    desk.now += 3.5
    desk.look_for(4 * SAVED_S)

    assert desk.again == ["a", "a"]
    assert desk.journal.deeds() == []


def test_a_second_start_has_it_looked_at_again(desk):
    desk.lasting.note(Kind.ACTS, "a")
    desk.start(NOW)
    desk.now += 0.5
    desk.look_for(5.0)
    desk.start(desk.now)
    desk.now += 2.0
    desk.look_for(4 * SAVED_S)

    assert desk.again == ["a", "a"]
    assert desk.journal.deeds() == []


def test_what_slurmctld_has_saved_is_looked_at_no_more(desk):
    desk.lasting.note(Kind.ACTS, "a")
    desk.start(NOW - 100.0)
    desk.look_for(2 * SAVED_S)

    assert (desk.again, desk.journal.deeds()) == ([], [])
