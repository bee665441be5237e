"""Lets an agent that is not root ask the kubelet which pod has which GPUs: the kubelet's socket is root's alone.

``python3 -m wheeltapper_hooks.pod_resources_relay KUBELET_SOCKET OWN_SOCKET`` listens at OWN_SOCKET, in a folder that
only the agent's pod sees, and passes bytes on. It needs to be root and no more: no capability, no network, no token.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

CHUNK = 1 << 16

AT_ONCE = 16
"""Connections at a time; an agent has one or two."""


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
    writer.close()


async def serve(kubelet: Path, own: Path) -> None:
    """Pass on what comes, until SIGTERM; raise ``OSError`` when the socket cannot be made."""
    room = asyncio.Semaphore(AT_ONCE)

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with room:
            try:
                there = await asyncio.open_unix_connection(str(kubelet))
            except OSError as error:
                print(f"the kubelet cannot be reached: {error}", file=sys.stderr, flush=True)  # noqa: T201
                writer.close()
                return
            try:
                await asyncio.gather(_pass_on(reader, there[1]), _pass_on(there[0], writer))
            except asyncio.CancelledError:
                writer.close()  # up to Python 3.11 asyncio prints a traceback when it hears of it

    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    own.unlink(missing_ok=True)
    before = os.umask(0o111)
    try:
        server = await asyncio.start_unix_server(connected, str(own))
    finally:
        os.umask(before)
    await stop.wait()
    server.close()
    own.unlink(missing_ok=True)


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), Path(sys.argv[2])))
