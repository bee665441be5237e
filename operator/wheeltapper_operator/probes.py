"""What the kubelet asks of a replica: does it live, and has it seen the cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web


@asynccontextmanager
async def served(address: str, is_ready: Callable[[], bool]) -> AsyncIterator[None]:
    """Answer ``/healthz`` and ``/readyz`` at *address* (``host:port``); nothing when it is empty.

    Raises:
        OSError: nothing can listen there.
    """
    if not address:
        yield
        return

    async def live(_request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(_request: web.Request) -> web.Response:
        if is_ready():
            return web.Response(text="ok\n")
        return web.Response(text="the cluster was not seen in full yet\n", status=503)

    app = web.Application()
    app.add_routes([web.get("/healthz", live), web.get("/readyz", ready)])
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        host, _, port = address.rpartition(":")
        await web.TCPSite(runner, host, int(port)).start()
        yield
    finally:
        await runner.cleanup()
