"""Where pods reach the agent: HTTP/1 on the node's address, one question and one answer a connection.

No TLS: what is asked comes from the same machine, the token is good for nothing but this question, and nothing rests
on the answer but whether the asker itself starts (docs/adr/0026).
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from wheeltapper.config import PodPreflightSection
from wheeltapper_hooks.agent.pod_tokens import NotAPod

log = logging.getLogger(__name__)

HEAD_BYTES = 16 << 10
"""A token is some 2 KB."""

HEAD_S = 5.0
"""A pod that has not finished its question by now is gone."""

AT_ONCE = 128
"""Connections at a time; who comes beyond them is told to come again."""

REOPEN_S = 5.0
"""How soon a port that could not be had is tried again."""

PATH = "/v1/preflight"

Json = dict[str, Any]
Answerer = Callable[[str], Awaitable[Json]]


class PodServer:
    """Listens for the pods of this node."""

    def __init__(self, section: PodPreflightSection, answer: Answerer) -> None:
        self._section = section
        self._answer = answer
        self._serving = 0
        self._told = ""
        self.port = 0

    async def serve_for_ever(self) -> None:
        """Answer until cancelled. A port that cannot be had is tried again: without us pods start unchecked."""
        while True:
            try:
                server = await asyncio.start_server(
                    self._serve, self._section.listen, self._section.agent_port, limit=HEAD_BYTES
                )
            except OSError as error:
                if self._told != str(error):
                    log.error("Pods start unchecked, because their port cannot be had: %s.", error)
                self._told = str(error)
                await asyncio.sleep(REOPEN_S)
                continue
            self._told = ""
            self.port = server.sockets[0].getsockname()[1]
            try:
                await asyncio.Event().wait()
            finally:
                server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._serving += 1
        try:
            status, said = await self._reply(reader)
            writer.write(_response(status, said))
            await writer.drain()
        except (OSError, EOFError, asyncio.LimitOverrunError, asyncio.TimeoutError) as error:
            log.debug("A caller went without an answer (%s: %s).", type(error).__name__, error)
        except asyncio.CancelledError:
            # Up to Python 3.11 asyncio prints a traceback when it hears of it.
            log.debug("A caller went without an answer (the agent stops).")
        finally:
            self._serving -= 1
            writer.close()

    async def _reply(self, reader: asyncio.StreamReader) -> tuple[HTTPStatus, Json]:
        if self._serving > AT_ONCE:
            return HTTPStatus.SERVICE_UNAVAILABLE, {"sentence": "the agent has too many callers"}
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), HEAD_S)).decode("latin-1")
        asked, *lines = head.split("\r\n")
        if asked.split(" ")[:2] != ["GET", PATH]:
            return HTTPStatus.NOT_FOUND, {"sentence": f"there is nothing but {PATH} here"}
        try:
            return HTTPStatus.OK, await self._answer(_token(lines))
        except NotAPod as error:
            log.info("A caller was refused: %s.", error)
            return HTTPStatus.FORBIDDEN, {"sentence": f"the agent refuses: {error}"}
        except (OSError, ValueError) as error:  # the latter: what we asked gave an answer that is none
            log.warning("A pod is not answered, and asks again or starts unchecked: %s.", error)
            return HTTPStatus.SERVICE_UNAVAILABLE, {"sentence": f"the agent cannot answer: {error}"}


def _token(lines: list[str]) -> str:
    for line in lines:
        name, _, value = line.partition(":")
        kind, _, token = value.strip().partition(" ")
        if name.lower() == "authorization" and kind.lower() == "bearer":
            return token.strip()
    return ""


def _response(status: HTTPStatus, said: Json) -> bytes:
    content = json.dumps(said).encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + content
