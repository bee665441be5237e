"""Ends asyncio's tasks for certain."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

AGAIN_S = 1.0
"""After so long a task that goes on is cancelled again; what it does at its end is shorter."""


async def end(tasks: Iterable[asyncio.Task[Any]]) -> None:
    """Cancel *tasks* until each has ended; what they end with is for whoever asks them.

    Once is not enough: before Python 3.12 ``asyncio.wait_for`` loses a cancellation that comes in the moment in which
    what it waits for is done. A task that works in a loop would go on for ever, and with it whoever waits for its end.
    """
    asked = set(tasks)
    left = {task for task in asked if not task.done()}
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=AGAIN_S)
    for task in asked:
        if not task.cancelled():
            task.exception()  # else asyncio complains at exit that nobody asked
