"""Metrics for Prometheus, told at the moment of a scrape from what is at hand: nothing is counted in the background.

Labels are kinds, outcomes, hooks and modes. Jobs, users, nodes and GPUs are never labels: there are too many of them,
and the ledger knows them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric

log = logging.getLogger(__name__)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
REQUEST_BYTES = 16 << 10
REQUEST_S = 5.0
"""A scraper sends a few hundred bytes at once; who is slower is none."""

Collect = Callable[[], Iterable[Metric]]


class _Collector:
    def __init__(self, collect: Collect) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        return self._collect()

    def describe(self) -> Iterator[Metric]:
        """Nothing in advance: the registry would collect once only to learn the names."""
        return iter(())


def exposition(collect: Collect) -> bytes:
    """Return what *collect* yields in the text format of Prometheus."""
    registry = CollectorRegistry()
    registry.register(_Collector(collect))
    return generate_latest(registry)


async def serve(address: str, port: int, collect: Collect) -> asyncio.AbstractServer:
    """Answer ``GET /metrics`` on *address* and *port* until the server that is returned is closed.

    Everything runs on the caller's event loop, so *collect* may read what belongs to it.

    Raises:
        OSError: the port cannot be had.
    """

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, EOFError, asyncio.LimitOverrunError, asyncio.TimeoutError):
            head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), REQUEST_S)
            status, kind, body = _response(head.split(b"\r\n", 1)[0], collect)
            writer.write(
                f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
                "Connection: close\r\n\r\n".encode()
                + body
            )
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, address, port, limit=REQUEST_BYTES)
    log.info("metrics on http://%s:%d/metrics", address, port)
    return server


def _response(request: bytes, collect: Collect) -> tuple[str, str, bytes]:
    method, _, rest = request.partition(b" ")
    if method != b"GET":
        return "405 Method Not Allowed", "text/plain", b"only GET\n"
    if rest.split(b" ")[0].split(b"?")[0] != b"/metrics":
        return "404 Not Found", "text/plain", b"the metrics are at /metrics\n"
    return "200 OK", CONTENT_TYPE, exposition(collect)
