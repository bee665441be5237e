"""Two services on one folder: one acts, and the other does when that one is gone."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from tests.integration.node import until
from tests.integration.service import MASTER, Service
from wheeltapper import config
from wheeltapper.config import ControllerSection
from wheeltapper.errors import WheeltapperError
from wheeltapper.ledger.store import Ledger
from wheeltapper.verdict import State
from wheeltapper.wire import Answer, Health, node_key
from wheeltapper_hooks.agent.controller import Controller
from wheeltapper_slurm import standby
from wheeltapper_slurm.journal import Journal

ANOTHER = """
import asyncio, sys
from pathlib import Path
from wheeltapper_slurm import standby
from wheeltapper_slurm.journal import Journal
async def act():
    async with standby.turn(Path(sys.argv[1])):
        print("acts", flush=True)
        await asyncio.to_thread(__import__("subprocess").run, ["sleep", "60"])
asyncio.run(act())
"""


@pytest.fixture
def another(tmp_path):
    """A service in a process of its own, which acts, and has a child as a scontrol would be."""
    process = subprocess.Popen(
        [sys.executable, "-c", ANOTHER, str(tmp_path)], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "acts\n"
    until(lambda: "process" in (tmp_path / standby.LOCK).read_text(), "the lock to be signed")
    yield process
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()


def test_alone_it_acts_at_once(tmp_path):
    async def act():
        async with standby.turn(tmp_path / "new"):
            return True

    assert asyncio.run(asyncio.wait_for(act(), 5.0))


def test_it_stands_by_while_another_acts_and_takes_over_when_that_one_is_killed(tmp_path, another, caplog):
    caplog.set_level("INFO")

    async def act():
        async with standby.turn(tmp_path):
            return True

    async def kill_while_it_waits():
        waiting = asyncio.ensure_future(act())
        await asyncio.to_thread(until, lambda: caplog.messages, "it to say that it stands by")
        assert not waiting.done()
        os.kill(another.pid, signal.SIGKILL)
        return await asyncio.wait_for(waiting, 10.0)

    assert asyncio.run(kill_while_it_waits()), "though a child of the killed one lives on"
    assert f"process {another.pid}" in caplog.messages[0]
    assert caplog.messages[1:] == ["the service that acted is gone, and this one takes over"]


def test_a_service_whose_folder_is_gone_stops_acting(tmp_path, monkeypatch):
    def refuse(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(standby, "_sign", refuse)

    async def act():
        async with standby.turn(tmp_path):
            await asyncio.sleep(30.0)

    with pytest.raises(standby.LockLostError, match="Input/output error"):
        asyncio.run(asyncio.wait_for(act(), 10.0))


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("")

    async def act():
        async with standby.turn(tmp_path / "file" / "below"):
            pass

    with pytest.raises(WheeltapperError, match=r"active\.lock cannot be opened"):
        asyncio.run(act())


def test_a_node_asks_the_standby_when_the_first_service_is_gone(tmp_path):
    first, second = Service(lambda _: Answer(reason="first")), Service(lambda _: Answer(reason="second"))
    (tmp_path / "key").write_bytes(node_key(MASTER, "n1"))
    section = ControllerSection(
        address=first.address, standby_address=second.address, key_file=tmp_path / "key", auth="key"
    )
    controller = Controller(section, "n1")

    def told():
        answer = asyncio.run(controller.ask(Health("n1", "boot", State.OK, 1.0), 5.0))
        return answer.reason if answer else None

    assert told() == "first"
    first.close()
    assert told() == "second"
    assert told() == "second"
    second.close()
    assert told() is None
    assert first.address in controller.said
    assert second.address in controller.said


def test_files_that_two_hosts_share_have_no_log_in_one_hosts_memory(tmp_path):
    shared = config.parse(
        f"[controller]\nspool_dir = '{tmp_path}'\nstandby_address = 'b:1'\n[ledger]\npath = '{tmp_path}/ledger.db'\n"
    )
    ledger = Ledger.of(shared)
    journal = Journal(tmp_path / "journal.db", shared=shared.controller.is_shared)
    ledger.close()
    journal.close()

    for name in ("ledger.db", "journal.db"):
        with closing(sqlite3.connect(tmp_path / name)) as db:
            assert db.execute("PRAGMA journal_mode").fetchone() == ("delete",), "the file itself asks for no WAL"
