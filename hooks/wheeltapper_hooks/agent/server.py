"""The agent's socket: one question and one answer a connection, as ``wheeltapper_hooks.client`` asks them."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

log = logging.getLogger(__name__)

QUESTION_BYTES = 256 << 10
"""A question is a few KiB of environment."""

QUESTION_S = 2.0
"""A client that has not finished its question by now is gone."""

Answerer = Callable[[str, Mapping[str, str], Callable[[float], None]], Awaitable[tuple[int, str]]]


class Server:
    """Listens on a socket that only root may connect to."""

    def __init__(self, path: Path, answer: Answerer) -> None:
        self._path = path
        self._answer = answer
        self._server: asyncio.AbstractServer | None = None

    async def start(self) -> None:
        """Listen; raise ``OSError`` when that is not possible. The socket of an agent that died is taken over."""
        self._path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve, self._path, limit=QUESTION_BYTES)
        finally:
            os.umask(before)

    async def stop(self) -> None:
        """Stop listening, and take the socket away: clients see at once that nobody is here."""
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def wait(seconds: float) -> None:
            writer.write(f"wait {seconds:g}\n".encode())

        try:
            hook, environment = await asyncio.wait_for(_question(reader), QUESTION_S)
            code, sentence = await self._answer(hook, environment, wait)
            writer.write(f"{code} {' '.join(sentence.splitlines())}\n".encode())
            await writer.drain()
        except (OSError, ValueError, EOFError, asyncio.LimitOverrunError, asyncio.TimeoutError) as error:
            log.warning("A hook went without an answer (%s: %s).", type(error).__name__, error)
        except asyncio.CancelledError:
            # Up to Python 3.11 asyncio prints a traceback when it hears of it.
            log.warning("A hook went without an answer (the agent stops).")
        finally:
            writer.close()


async def _question(reader: asyncio.StreamReader) -> tuple[str, dict[str, str]]:
    """Return the hook's name and environment; raise ``ValueError`` or ``EOFError`` when it is no question."""
    text = (await reader.readuntil(b"\n\n")).decode("utf-8", "replace")
    hook, *lines = text.rstrip("\n").split("\n")
    return hook, dict(line.split("=", 1) for line in lines if "=" in line)
