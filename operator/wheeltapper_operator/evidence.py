"""Evidence that is soon gone: the ends of logs, and events."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import orjson

from wheeltapper import kubernetes_names as names
from wheeltapper.errors import SchedulerError
from wheeltapper_operator.api import Api, path_of
from wheeltapper_operator.endings import Ending
from wheeltapper_operator.jobs import Job
from wheeltapper_operator.pods import Pod

log = logging.getLogger(__name__)

LOG_LINES = 4_000
LOG_BYTES = 1 << 20
"""Of one rank's log, from its end: the cause is near it, and a gang has many ranks."""

LOGS_MAX = 16
"""Ranks of one attempt whose logs are fetched: the first that fail know most."""

AT_ONCE = 8

FETCH_S = 5.0
"""Seconds for one log: a kubelet that does not answer by then is the news itself."""

EVENTS_MAX = 500


class Evidence:
    """Fetches it, a few at a time."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._room = asyncio.Semaphore(AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()

    def fetch(self, ending: Ending, pod: Pod, then: Callable[[], None]) -> None:
        """Have the logs of what failed in *pod* fetched into *ending*, then call *then*; soon they may be gone."""
        if len(ending.records) > LOGS_MAX:
            return
        ending.pending += 1
        task = asyncio.create_task(self._fetch(ending, pod))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _done: then())

    async def _fetch(self, ending: Ending, pod: Pod) -> None:
        try:
            async with self._room:
                for container, restarts in pod.failed or ((None, 0),):
                    text = await asyncio.wait_for(self._log(pod, container, restarts), FETCH_S)
                    ending.logs[f"{pod.name}-{container or 'log'}"] = text
        except (SchedulerError, asyncio.TimeoutError) as error:
            log.info(
                "The log of %s/%s could not be had: %s", pod.namespace, pod.name, error or "the node does not answer"
            )
        finally:
            ending.pending -= 1

    async def _log(self, pod: Pod, container: str | None, restarts: int) -> str:
        return await self._api.text(
            path_of("v1", "pods", pod.namespace, pod.name, "log"),
            container=container,
            tailLines=LOG_LINES,
            limitBytes=LOG_BYTES,
            timestamps="true",
            # Restarted in place: what failed is the run before this one.
            previous="true" if restarts and pod.phase == "Running" else None,
        )

    async def events(self, job: Job) -> str:
        """Return the events about *job* and its pods as JSON, without our own; nothing when they cannot be had."""
        try:
            found = await self._api.get(path_of("v1", "events", job.namespace), limit=EVENTS_MAX)
        except SchedulerError as error:
            log.info("The events of %s could not be had: %s", job.key, error)
            return ""
        items = [
            {"apiVersion": "v1", "kind": "Event", **each}
            for each in found.get("items") or ()
            if str(each.get("involvedObject", {}).get("name", "")).startswith(job.name)
            and (each.get("source") or {}).get("component") != names.MANAGER
        ]
        return orjson.dumps({"apiVersion": "v1", "kind": "List", "items": items}).decode() if items else ""
