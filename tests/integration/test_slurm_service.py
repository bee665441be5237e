"""The controller service with its socket: who it answers, and what it makes of everybody else."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket

import pytest

from tests.unit.make import BOOT, xid79
from tests.unit.slurm.fake import FakeSlurm, node
from wheeltapper import config, metrics, wire
from wheeltapper.verdict import State
from wheeltapper.wire import Health, JobStay, Report
from wheeltapper_slurm import limits, service
from wheeltapper_slurm.metrics import families
from wheeltapper_slurm.service import Service

MASTER = b"m" * 64


class Running:
    """A service on a port of its own, while a coroutine of the test talks to it."""

    def __init__(self, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        (folder / "key").write_bytes(MASTER)
        text = (
            f"[controller]\naddress = '127.0.0.1:{self.port}'\nkey_file = '{folder}/key'\nspool_dir = '{folder}/spool'\n"
            f"[ledger]\npath = '{folder}/ledger.db'\n"
        )
        self.service = Service(config.parse(text), FakeSlurm(node("n1"), node("n2")))

    def during(self, talk):
        async def run():
            working = asyncio.ensure_future(self.service.run())
            try:
                return await asyncio.wait_for(talk(self), 30.0)
            finally:
                working.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await working

        return asyncio.run(run())

    async def connected(self):
        for _ in range(500):
            with contextlib.suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", self.port)
            await asyncio.sleep(0.01)
        raise AssertionError("the service does not listen")

    async def says(self, data):
        """Send raw bytes after the greeting, and return what comes back before the connection ends."""
        reader, writer = await self.connected()
        greeting = await reader.readline()
        writer.write(data(greeting.decode().split()[1]) if callable(data) else data)
        with contextlib.suppress(OSError):
            await writer.drain()
            writer.write_eof()
        answer = b""
        with contextlib.suppress(ConnectionError):
            answer = await reader.read()
        writer.close()
        return answer

    async def ask(self, message, node="n1"):
        (await self.connected())[1].close()
        return await wire.ask(f"127.0.0.1:{self.port}", node, wire.node_key(MASTER, node), message, 10.0)

    def refused(self):
        """The counters of what was refused, those that are not 0."""
        text = metrics.exposition(lambda: families(self.service._parts)).decode()
        lines = [line for line in text.splitlines() if line.startswith("wheeltapper_refused_messages_total")]
        counts = {line.partition('"')[2].partition('"')[0]: float(line.split()[1]) for line in lines}
        return {why: count for why, count in counts.items() if count}


@pytest.fixture
def running(tmp_path):
    return Running(tmp_path)


def signed(name, body, key=None):
    """What node *name* says, for a nonce."""
    secret = key or wire.node_key(MASTER, name)
    return lambda nonce: f"{name} {len(body)} {wire._mac(secret, 'ask', nonce, body)}\n".encode() + body


def test_who_proves_nothing_is_counted_dropped_and_told_in_one_line(running, caplog):
    caplog.set_level(logging.WARNING)

    async def talk(at):
        await at.ask(Health("n1", BOOT, State.OK, 1.0))
        said = [await at.says(each) for each in [b"GET / HTTP/1.1\r\n\r\n"] * 20]
        said += [await at.says(signed("n1", b"{}", key=b"k" * 64)) for _ in range(20)]
        assert said == [b""] * 40
        assert (await at.ask(Health("n2", BOOT, State.OK, 1.0), node="n2")).ok
        return at.refused()

    refused = running.during(talk)

    assert refused["proof"] == 20.0
    assert refused["protocol"] >= 20.0
    assert caplog.text.count("refused since the last such line") == 1


def test_what_was_said_once_cannot_be_said_again(running):
    """Somebody who heard a node cannot say it a second time: each connection has a nonce of its own."""
    body = b'{"kind": "health", "node": "n1", "boot_id": "b", "state": "ok", "held_s": 1.0}'
    heard = []

    def once(nonce):
        heard.append(signed("n1", body)(nonce))
        return heard[0]

    async def talk(at):
        first = await at.says(once)
        assert len(first) > 64
        return await at.says(heard[0]), at.refused()

    again, refused = running.during(talk)

    assert again == b""
    assert refused["proof"] == 1.0


def test_a_node_that_floods_the_service_is_refused_and_another_is_answered(running, monkeypatch):
    few = limits.Rate(messages=0.001, messages_burst=3, bytes=1e6, bytes_burst=1e6)
    running.service._rates = limits.Rates(per_node=few)
    body = b'{"kind": "health", "node": "n1", "boot_id": "b", "state": "ok", "held_s": 1.0}'

    async def talk(at):
        said = [await at.says(signed("n1", body)) for _ in range(5)]
        other = await at.ask(Health("n2", BOOT, State.OK, 1.0), node="n2")
        return [bool(each) for each in said], other.ok, at.refused()["rate"]

    assert running.during(talk) == ([True, True, True, False, False], True, 2.0)


def test_places_are_kept_for_others_when_one_address_holds_many(running):
    running.service._doors = limits.Doors(total=8, per_address=2)

    async def talk(at):
        held = [await at.connected() for _ in range(2)]
        for reader, _ in held:
            await reader.readline()
        reader, writer = await at.connected()
        turned_away = await reader.read()
        for each in (writer, *(writer for _, writer in held)):
            each.close()
        return turned_away, at.refused()["busy"]

    assert running.during(talk) == (b"", 1.0)


def test_evidence_of_another_node_is_refused_whole(running):
    async def talk(at):
        with pytest.raises(wire.WireError):
            await at.ask(Report("n1", BOOT, JobStay("12", 1.0, 2.0), (xid79("n2"),)))
        return at.refused()["foreign"], at.service._journal.reports("12")

    assert running.during(talk) == (1.0, [])


def test_the_places_fit_into_the_open_files_that_a_unit_has():
    assert limits.OPEN_MAX < 1024 - 128
    assert service.BACKLOG >= limits.OPEN_MAX
