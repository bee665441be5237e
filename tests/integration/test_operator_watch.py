"""What the operator makes of a watch that has nothing to say, on a real connection."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from kubernetes.aio import client

from wheeltapper_operator.api import Api, Silence

EVENT = {"type": "ADDED", "object": {"metadata": {"name": "n1", "resourceVersion": "1"}}}


async def heard(say: Any) -> list[Any]:
    """The events of a watch on a server that does *say*, up to its end or its silence, which comes last."""
    app = web.Application()
    app.router.add_get("/api/v1/nodes", say)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    api = Api(client.Configuration(host=f"http://127.0.0.1:{runner.addresses[0][1]}"))
    found: list[Any] = []
    try:
        async for event in api.watch("/api/v1/nodes", 0.2):
            found.append(event)  # noqa: PERF401 - what came before the silence counts, too
    except Silence as silence:
        found.append(silence)
    finally:
        await api.close()
        await runner.cleanup()
    return found


async def once(request: web.Request) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    await answer.write(b'{"type":"ADDED","object":{"metadata":{"name":"n1","resourceVersion":"1"}}}\n')
    return answer


async def once_and_no_more(request: web.Request) -> web.StreamResponse:
    await once(request)
    await asyncio.Event().wait()
    raise AssertionError


def test_a_watch_on_which_nothing_comes_any_more_is_silent_after_its_last_event():
    event, silence = asyncio.run(heard(once_and_no_more))

    assert event == EVENT
    assert str(silence) == "a watch of /api/v1/nodes was silent for 0.2 s"


def test_a_watch_that_the_server_ends_is_not_silent():
    assert asyncio.run(heard(once)) == [EVENT]
