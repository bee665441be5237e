"""Events that people read in ``kubectl describe``: the same sentence about an object is one event that counts up.

Said twice of the same moment, because an answer was lost or because another operator leads now, it counts once.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone

from wheeltapper import kubernetes_names as names
from wheeltapper.errors import SchedulerError
from wheeltapper_operator.api import Api, ApiError, Json, path_of
from wheeltapper_operator.pace import Pace

log = logging.getLogger(__name__)

MESSAGE_MAX = 1024
"""Characters of a message: the API's own limit."""

WAITING_MAX = 10_000
"""Events that may wait to be written: some 10 MB."""

LIFE_S = 3600.0
"""How long an API server keeps events by default: what happened before is told no more."""

GIVE_UP_S = 300.0
"""Seconds for which one event is tried again; an API server takes well under a minute to restart."""

BACKOFF_S = 0.2
BACKOFF_MAX_S = 5.0

PASSING = frozenset({409, 429, 500, 502, 503, 504})
"""Refusals that pass."""


@dataclass(frozen=True, slots=True)
class Regarding:
    """The object that an event is about."""

    group: str
    kind: str
    name: str
    uid: str
    namespace: str = ""

    @property
    def reference(self) -> Json:
        """It as an object reference."""
        words = {"apiVersion": self.group, "kind": self.kind, "name": self.name, "uid": self.uid}
        return words | ({"namespace": self.namespace} if self.namespace else {})


@dataclass(frozen=True, slots=True)
class _Waiting:
    event: Json
    once: bool


class Events:
    """Events that wait to be written. What cannot be written is logged, and nothing waits or fails for it.

    When *leads* is no longer true, what waits is let go: whoever leads says it.
    """

    def __init__(self, api: Api, pace: Pace, leads: Callable[[], bool]) -> None:
        self._api = api
        self._pace = pace
        self._leads = leads
        self._waiting: asyncio.Queue[_Waiting] = asyncio.Queue(WAITING_MAX)

    def tell(
        self, about: Regarding, reason: str, message: str, *, warning: bool, now: float, once: bool = False
    ) -> None:
        """Say *message* about an object at *now* (Unix seconds); *reason* is one CamelCase word.

        What can be true but once is said *once*, whenever and by whomever it was said before.
        """
        event = as_event(about, reason, message, warning=warning, now=now)
        try:
            self._waiting.put_nowait(_Waiting(event, once))
        except asyncio.QueueFull:
            log.warning("Too many events wait; this one is told here only: %s: %s", about.name, message)

    async def run(self) -> None:
        """Write what waits, for ever."""
        while True:
            waiting = await self._waiting.get()
            await self._deliver(waiting)
            self._waiting.task_done()

    async def _deliver(self, waiting: _Waiting) -> None:
        ends, pause = time.monotonic() + GIVE_UP_S, BACKOFF_S
        while True:
            await self._pace.step()
            if not self._leads():
                return
            try:
                await self._write(waiting.event, once=waiting.once)
            except SchedulerError as error:
                if (isinstance(error, ApiError) and error.status not in PASSING) or time.monotonic() > ends:
                    log.warning("An event could not be written (%s): %s", error, waiting.event["message"])
                    return
            else:
                return
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, not a secret
            pause = min(pause * 2, BACKOFF_MAX_S)

    async def _write(self, event: Json, *, once: bool) -> None:
        meta = event["metadata"]
        try:
            await self._api.post(path_of("v1", "events", meta["namespace"]), event)
        except ApiError as error:
            if error.status != 409:
                raise
            path = path_of("v1", "events", meta["namespace"], meta["name"])
            before = await self._read(path)
            if before is None:
                raise  # its life was over in this moment, or the conflict was another; made anew it will be there
            if once or str(before.get("lastTimestamp") or "") >= event["lastTimestamp"]:
                return  # it was said of this moment
            count = int(before.get("count") or 1) + 1
            version = before["metadata"]["resourceVersion"]
            last = {"count": count, "lastTimestamp": event["lastTimestamp"]}
            await self._api.patch(path, {"metadata": {"resourceVersion": version}, **last})

    async def _read(self, path: str) -> Json | None:
        try:
            return await self._api.get(path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise


def as_event(about: Regarding, reason: str, message: str, *, warning: bool, now: float) -> Json:
    """Return an Event. Its name follows from what it says, so that the same is said again by counting up."""
    text = message[:MESSAGE_MAX]
    mark = hashlib.sha256(f"{about.uid}/{reason}/{text}".encode()).hexdigest()[:16]
    stamp = datetime.fromtimestamp(now, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about.name[:200]}.{mark}", "namespace": about.namespace or "default"},
        "involvedObject": about.reference,
        "reason": reason,
        "message": text,
        "type": "Warning" if warning else "Normal",
        "source": {"component": names.MANAGER},
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
