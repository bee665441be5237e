"""Waiting for something to arrive: a report waits for the end of its job to be known."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable


class Arrivals:
    """Wakes whoever waits when the journal has a new end of a job."""

    def __init__(self) -> None:
        self._changed = asyncio.Condition()

    async def tell(self) -> None:
        """Something has changed: everybody who waits looks again."""
        async with self._changed:
            self._changed.notify_all()

    async def until(self, condition: Callable[[], bool], timeout: float) -> None:
        """Wait until *condition* holds, at most *timeout* seconds."""

        async def wait() -> None:
            async with self._changed:
                await self._changed.wait_for(condition)

        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(wait(), timeout)
