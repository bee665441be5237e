"""A listener that stops while a peer is still connected does so without a word of alarm."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import pytest

from tests.unit.slurm.fake import FakeSlurm
from wheeltapper import config
from wheeltapper_hooks.agent.server import Server
from wheeltapper_slurm.service import Service

PATIENCE_S = 5.0
"""Less than the service gives a peer: it must not wait for it."""


async def until(true):
    while not true():  # noqa: ASYNC110 - nothing tells us when
        await asyncio.sleep(0.005)


def stop_with_a_peer(listen, handler, peer, address):
    """Run *listen*, connect *peer*, stop once *handler* has it, and return what asyncio complained of."""
    alarms: list[dict[str, object]] = []

    async def play():
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: alarms.append(context))
        serving = asyncio.create_task(listen())
        await until(lambda: peer.connect_ex(address) == 0)
        peer.send(b"half a quest")
        await until(lambda: any(each.get_coro().__name__ == handler for each in asyncio.all_tasks()))
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving

    asyncio.run(asyncio.wait_for(play(), PATIENCE_S))
    return alarms


@pytest.fixture
def settings(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    (tmp_path / "key").write_bytes(b"m" * 32)
    return config.parse(
        f"[controller]\naddress = '127.0.0.1:{port}'\nkey_file = '{tmp_path}/key'\n"
        f"spool_dir = '{tmp_path}/spool'\n[ledger]\npath = '{tmp_path}/ledger.db'\n"
    )


def test_the_controller_service(settings):
    host, _, port = settings.controller.address.partition(":")

    async def listen():
        await Service(settings, FakeSlurm()).run()

    with socket.socket() as peer:
        assert stop_with_a_peer(listen, "_connected", peer, (host, int(port))) == []


def test_the_agent(tmp_path):
    async def listen():
        server = Server(tmp_path / "socket", answer=None)
        await server.start()
        try:
            await asyncio.Event().wait()
        finally:
            await server.stop()

    with socket.socket(socket.AF_UNIX) as peer:
        assert stop_with_a_peer(listen, "_serve", peer, str(tmp_path / "socket")) == []
