"""Reports that come at the same time are written down together, and answered only when they are."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import suppress

import pytest

from tests.unit.make import BOOT
from wheeltapper.wire import JobStay, Report
from wheeltapper_slurm.journal import Journal
from wheeltapper_slurm.receiving import Receiving


def report(node, job="14"):
    return Report(node, BOOT, JobStay(job, 901.0, 1100.0))


@pytest.fixture
def journal(tmp_path):
    one = Journal(tmp_path / "journal.db")
    yield one
    with suppress(sqlite3.ProgrammingError):
        one.close()


@pytest.fixture
def commits(journal, monkeypatch):
    """How many reports each commit has held."""
    sizes = []
    receive_all = journal.receive_all

    def counted(reports):
        receive_all(reports)
        sizes.append(len(reports))

    monkeypatch.setattr(journal, "receive_all", counted)
    return sizes


def test_a_hundred_reports_at_once_are_one_commit(journal, commits):
    async def run():
        receiving = Receiving(journal)
        await asyncio.gather(*(receiving.write(report(f"n{number}"), 1.0) for number in range(100)))
        return journal.heard("14")

    assert len(asyncio.run(run())) == 100
    assert commits == [100]


def test_nobody_goes_on_before_the_report_is_written(journal, commits):
    async def run():
        await Receiving(journal).write(report("n1"), 1.0)
        return journal.heard("14"), list(commits)

    assert asyncio.run(run()) == ({"n1"}, [1])


def test_when_the_journal_cannot_be_written_everybody_hears_of_it_and_the_next_one_is_tried(journal, monkeypatch):
    async def run():
        receiving = Receiving(journal)
        with monkeypatch.context() as broken:

            def full(_):
                raise sqlite3.OperationalError("database or disk is full")

            broken.setattr(journal, "receive_all", full)
            writing = [receiving.write(report(node), 1.0) for node in ("n1", "n2")]
            errors = await asyncio.gather(*writing, return_exceptions=True)
        await receiving.write(report("n3"), 1.0)
        return [str(error) for error in errors], journal.heard("14")

    assert asyncio.run(run()) == (["database or disk is full"] * 2, {"n3"})


def test_a_peer_that_was_cut_off_holds_up_nobody(journal):
    async def run():
        receiving = Receiving(journal)
        gone = asyncio.ensure_future(receiving.write(report("n1"), 1.0))
        await asyncio.sleep(0)
        gone.cancel()
        await receiving.write(report("n2"), 1.0)
        return journal.heard("14")

    assert asyncio.run(run()) == {"n1", "n2"}


def test_of_reports_that_cannot_be_written_together_none_is(journal):
    with pytest.raises(sqlite3.Error):
        journal.receive_all([(report("n1"), 1.0), (report(None), 1.0)])

    assert journal.heard("14") == set()
