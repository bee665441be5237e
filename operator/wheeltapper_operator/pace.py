"""How fast we write: a burst at once, then so many a second, so that our bad hour does not become the server's."""

from __future__ import annotations

import asyncio
import time


class Pace:
    """A bucket of *burst* tokens that fills at *rate* tokens a second; each write takes one, in the order of asking."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._tokens = self._burst
        self._at = time.monotonic()
        self._turn = asyncio.Lock()

    async def step(self) -> None:
        """Wait for a token, and take it."""
        async with self._turn:
            now = time.monotonic()
            self._tokens = min(self._burst, self._tokens + (now - self._at) * self._rate)
            self._at = now
            if self._tokens < 1.0:
                await asyncio.sleep((1.0 - self._tokens) / self._rate)
                self._at = time.monotonic()
                self._tokens = 1.0
            self._tokens -= 1.0
