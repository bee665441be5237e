"""What the kubelet hears of a replica."""

from __future__ import annotations

import asyncio
import socket

import aiohttp

from wheeltapper_operator.probes import served


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


async def statuses(port: int) -> tuple[int, int]:
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
        async with client.get("/healthz") as live:
            pass
        async with client.get("/readyz") as ready:
            pass
    return live.status, ready.status


def test_a_replica_lives_from_the_start_and_is_ready_when_it_has_seen_the_cluster():
    async def look() -> list[tuple[int, int]]:
        seen = False
        port = free_port()
        async with served(f"127.0.0.1:{port}", lambda: seen):
            before = await statuses(port)
            seen = True
            return [before, await statuses(port)]

    assert asyncio.run(look()) == [(200, 503), (200, 200)]


def test_without_an_address_nothing_listens():
    async def look() -> bool:
        async with served("", lambda: True):
            return True

    assert asyncio.run(look())
