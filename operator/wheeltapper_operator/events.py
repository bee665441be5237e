"""Events that people read in ``kubectl describe``: the same sentence about an object is one event that counts up."""

from __future__ import annotations

import asyncio
import hashlib
import logging
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


class Events:
    """Events that wait to be written. What cannot be written is logged, and nothing waits or fails for it."""

    def __init__(self, api: Api, pace: Pace) -> None:
        self._api = api
        self._pace = pace
        self._waiting: asyncio.Queue[Json] = asyncio.Queue(WAITING_MAX)

    def tell(self, about: Regarding, reason: str, message: str, *, warning: bool, now: float) -> None:
        """Say *message* about an object at *now* (Unix seconds); *reason* is one CamelCase word."""
        event = as_event(about, reason, message, warning=warning, now=now)
        try:
            self._waiting.put_nowait(event)
        except asyncio.QueueFull:
            log.warning("Too many events wait; this one is told here only: %s: %s", about.name, message)

    async def run(self) -> None:
        """Write what waits, for ever."""
        while True:
            event = await self._waiting.get()
            await self._pace.step()
            try:
                await self._write(event)
            except SchedulerError as error:
                log.warning("An event could not be written (%s): %s", error, event["message"])

    async def _write(self, event: Json) -> None:
        meta = event["metadata"]
        try:
            await self._api.post(path_of("v1", "events", meta["namespace"]), event)
        except ApiError as error:
            if error.status != 409:
                raise
            path = path_of("v1", "events", meta["namespace"], meta["name"])
            count = int((await self._api.get(path)).get("count") or 1) + 1
            await self._api.patch(path, {"count": count, "lastTimestamp": event["lastTimestamp"]})


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
