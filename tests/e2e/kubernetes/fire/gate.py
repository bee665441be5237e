"""What stands between one operator and the API server: it sees each request, and can break everything.

Plain HTTP on loopback in front, the API server's TLS behind.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import aiohttp
from aiohttp import web

from tests.integration.control_plane import TOKEN, ControlPlane
from wheeltapper_operator.api import hang_up


@dataclass(frozen=True, slots=True)
class Write:
    """A request that changes something."""

    method: str
    path: str
    body: str

    @property
    def is_renewal(self) -> bool:
        """True for the lease, which says who leads and nothing about nodes and jobs."""
        return "/leases" in self.path

    @property
    def says_suspend(self) -> bool | None:
        """Whether it suspends a batch job, or resumes it, or says nothing on that."""
        said: bool | None = json.loads(self.body).get("spec", {}).get("suspend")
        return said


Before = Callable[[Write], Awaitable[web.Response | None]]
After = Callable[[Write], Awaitable[object]]


class Gate:
    """*before* may answer a write in the server's place; *after* is told when the server has done it and nobody knows."""

    def __init__(self, plane: ControlPlane, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.writes: list[Write] = []
        self.before: Before | None = None
        self.after: After | None = None
        self.is_silent = False
        self.watches = 0
        self.swallowed = 0
        self._plane = plane
        self._is_cut = False
        self._open: dict[int, web.Request] = {}
        self._server: aiohttp.ClientSession | None = None

    def cut(self) -> None:
        """Break all connections, and let none through from now on."""
        self._is_cut = True
        for request in tuple(self._open.values()):
            _abort(request)

    def mend(self) -> None:
        """Let everything through again."""
        self._is_cut = self.is_silent = False

    @asynccontextmanager
    async def standing(self) -> AsyncIterator[Gate]:
        """Let requests through for as long as the block lasts."""
        trust = ssl.create_default_context(cafile=str(self._plane.authority))
        connector = aiohttp.TCPConnector(ssl=trust, limit=0)
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._pass)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        async with aiohttp.ClientSession(
            connector=connector, auto_decompress=False, headers={"Authorization": f"Bearer {TOKEN}"}
        ) as self._server:
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            self._tell_the_way(runner.addresses[0][1])
            try:
                yield self
            finally:
                await runner.cleanup()

    def _tell_the_way(self, port: int) -> None:
        made = json.loads(self._plane.kubeconfig.read_text())
        made["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{port}"}
        self.kubeconfig.write_text(json.dumps(made))

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        if self._is_cut:
            _abort(request)
            return web.Response()
        self._open[id(request)] = request
        try:
            if request.method == "GET":
                return await self._relay(request, b"")
            return await self._write(request)
        except (aiohttp.ClientError, OSError):
            _abort(request)  # the server is gone, and so is the connection to it
            return web.Response()
        finally:
            del self._open[id(request)]

    async def _write(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        write = Write(request.method, request.path, body.decode())
        self.writes.append(write)
        instead = await self.before(write) if self.before else None
        return instead or await self._relay(request, body, write)

    async def _relay(self, request: web.Request, body: bytes, write: Write | None = None) -> web.StreamResponse:
        assert self._server is not None
        kept = {key: request.headers[key] for key in ("Content-Type", "Accept") if key in request.headers}
        timeout = aiohttp.ClientTimeout(total=None)
        url = f"{self._plane.url}{request.rel_url}"
        async with self._server.request(request.method, url, data=body or None, headers=kept, timeout=timeout) as said:
            if request.query.get("watch") == "true":
                try:
                    return await self._stream(request, said)
                finally:
                    hang_up(said)
            content = await said.read()
            if write is not None and self.after is not None:
                await self.after(write)
            return web.Response(status=said.status, body=content, content_type="application/json")

    async def _stream(self, request: web.Request, said: aiohttp.ClientResponse) -> web.StreamResponse:
        self.watches += 1
        answer = web.StreamResponse(status=said.status, headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        async for chunk in said.content.iter_any():
            if self.is_silent:
                self.swallowed += 1
                await asyncio.Event().wait()  # the connection stands, and nothing comes through it any more
            await answer.write(chunk)
        return answer


def _abort(request: web.Request) -> None:
    with suppress(AttributeError):  # it has gone by itself
        request.transport.abort()  # type: ignore[union-attr]
