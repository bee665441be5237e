"""A controller service for tests: real wire, canned answers, and a record of what was said to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from tests.integration.node import until
from wheeltapper import wire
from wheeltapper.errors import WireError
from wheeltapper.wire import Answer, Message

MASTER = b"m" * 32


class Service:
    """Listens on a port of its own, in a thread, until :meth:`close`."""

    def __init__(self, answer: Callable[[Message], Answer], port: int = 0) -> None:
        self.said: list[Message] = []
        self.answer = answer
        self._loop = asyncio.new_event_loop()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(port, ready), daemon=True)
        self._thread.start()
        assert ready.wait(5)

    def _run(self, port: int, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", port))
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()
        server.close()
        # Who was being served when the test ended must not be left hanging.
        serving = asyncio.all_tasks(self._loop)
        for task in serving:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*serving, return_exceptions=True))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(WireError):
            await wire.serve(reader, writer, MASTER, self._handle, 5.0)

    async def _handle(self, message: Message) -> Answer:
        self.said.append(message)
        return self.answer(message)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def of(self, kind: type[Message]) -> list[Message]:
        return [each for each in self.said if isinstance(each, kind)]

    def heard(self, kind: type[Message], count: int = 1) -> list[Message]:
        """Wait until *count* messages of *kind* have come, and return all of them."""
        until(lambda: len(self.of(kind)) >= count, f"{count} of {kind.__name__}")
        return self.of(kind)

    def close(self) -> None:
        """Stop listening; twice is no harm."""
        if self._loop.is_closed():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
