"""Work by key: never twice at once on the same key, and once more when the key comes again meanwhile."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Coroutine

from wheeltapper.errors import SchedulerError

log = logging.getLogger(__name__)

AT_ONCE = 32
"""Keys worked on at the same time: each waits for the API server most of its time."""

BACKOFF_S = 0.2
BACKOFF_MAX_S = 15.0
"""What waited while the API server was away is tried again so soon after it is back."""

Work = Callable[[str], Coroutine[None, None, float | None]]


class Queue:
    """Calls *work* for each key that was added; it returns after how many seconds to come again, or None."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._waiting: asyncio.Queue[str] = asyncio.Queue()
        self._queued: set[str] = set()
        self._busy: set[str] = set()
        self._later: dict[str, asyncio.TimerHandle] = {}
        self._failures: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._queued) + len(self._busy)

    def add(self, key: str) -> None:
        """Have *key* worked on soon."""
        later = self._later.pop(key, None)
        if later is not None:
            later.cancel()
        if key in self._queued:
            return
        self._queued.add(key)
        if key not in self._busy:
            self._waiting.put_nowait(key)

    async def run(self) -> None:
        """Work, for ever; after a cancellation it may be called again, and goes on with what waits."""
        await asyncio.gather(*(self._serve() for _ in range(AT_ONCE)))

    async def _serve(self) -> None:
        while True:
            key = await self._waiting.get()
            self._queued.discard(key)
            self._busy.add(key)
            try:
                again = await self._attempt(key)
            finally:
                self._busy.discard(key)
                # Also when this is the end of our leading: it would never be taken up again when we lead once more.
                if key in self._queued:
                    self._waiting.put_nowait(key)
            if key not in self._queued and again is not None:
                self._add_later(key, again)

    async def _attempt(self, key: str) -> float | None:
        try:
            again = await self._work(key)
        except SchedulerError as error:
            log.warning("%s has to wait: %s", key, error)
        except Exception:
            log.exception("%s could not be looked at; please report this as a bug.", key)
        else:
            self._failures.pop(key, None)
            return again
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        return min(BACKOFF_S * 2.0**failures, BACKOFF_MAX_S) * random.uniform(0.5, 1.5)  # noqa: S311 - jitter

    def _add_later(self, key: str, seconds: float) -> None:
        def come_again() -> None:
            self._later.pop(key, None)
            self.add(key)

        self._later[key] = asyncio.get_running_loop().call_later(seconds, come_again)
