"""Delivers evidence to the controller service: kept on disk, and sent again until it was answered."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import random
from collections.abc import Awaitable, Callable

from pydantic import ValidationError

from wheeltapper import codec
from wheeltapper.wire import Answer, JobStay, LogReport, Report
from wheeltapper_hooks.agent.controller import Controller
from wheeltapper_hooks.agent.store import Store

log = logging.getLogger(__name__)

SEND_S = 5.0
"""To wait for the answer to a report: nobody waits with us, and a busy service is not a dead one."""

BACKOFF_S = 2.0
BACKOFF_MAX_S = 20.0
"""Delays between tries: twice as long each time, and no two nodes at the same moment. With its jitter the longest is
half a minute: a service that comes back waits a minute before it decides, and the logs are still to be read."""

LATER_S = 1.0
"""Until a report is sent again that came before the end of its job: slurmctld tells that within moments."""

LATER_TRIES = 120
"""The service stops asking after its own deadline, by this node's clock; and that may be wrong."""

ReadLogs = Callable[[JobStay, Answer], Awaitable[LogReport]]


class Outbox:
    """Reports that the service has not answered yet."""

    def __init__(self, store: Store, controller: Controller, read_logs: ReadLogs) -> None:
        self._store = store
        self._controller = controller
        self._read_logs = read_logs
        self._under_way: set[int] = set()
        self._tasks: set[asyncio.Task[bool]] = set()
        self._something_left = asyncio.Event()
        self._service_is_back = asyncio.Event()

    def post(self, report: Report) -> asyncio.Task[bool]:
        """Keep *report* and try to deliver it now. The task may be waited for, and abandoned: nothing is lost."""
        number = self._store.post(codec.dumps(report))
        task = asyncio.create_task(self._deliver_first_time(number, report))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def deliver_for_ever(self) -> None:
        """Send what is undelivered, with growing delays while the service does not answer, for ever."""
        delay = BACKOFF_S
        while True:
            self._something_left.clear()
            if await self._deliver_all():
                delay = BACKOFF_S
                await self._something_left.wait()
            else:
                await self._pause(delay * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, not a secret
                delay = min(delay * 2, BACKOFF_MAX_S)

    def __len__(self) -> int:
        return len(self._store.undelivered())

    async def _pause(self, seconds: float) -> None:
        self._service_is_back.clear()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._service_is_back.wait(), seconds)

    async def _deliver_first_time(self, number: int, report: Report) -> bool:
        self._under_way.add(number)
        try:
            delivered = await self._deliver(number, report)
        finally:
            self._under_way.discard(number)
        (self._service_is_back if delivered else self._something_left).set()
        return delivered

    async def _deliver_all(self) -> bool:
        for number, body in self._store.undelivered():
            message = _message(body)
            if message is None:
                log.error("An undelivered report could not be read and was dropped.")
                self._store.drop(number)
            elif number not in self._under_way and not await self._deliver(number, message):
                return False
        return True

    async def _deliver(self, number: int, message: Report | LogReport) -> bool:
        if isinstance(message, Report):
            answer = await self._controller.ask(message, SEND_S)
            for _ in range(LATER_TRIES):
                if answer is None or not answer.later:
                    break
                await asyncio.sleep(LATER_S * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, not a secret
                answer = await self._controller.ask(message, SEND_S)
            if answer is None:
                return False
            if not answer.read:
                self._store.drop(number)
                return True
            message = await self._read_logs(message.stay, answer)
            self._store.repost(number, codec.dumps(message))
        if await self._controller.ask(message, SEND_S) is None:
            return False
        self._store.drop(number)
        return True


def _message(body: str) -> Report | LogReport | None:
    try:
        kinds: dict[str, type[Report | LogReport]] = {"report": Report, "logs": LogReport}
        return codec.loads(kinds[json.loads(body)["kind"]], body)
    except (ValueError, KeyError, ValidationError):
        return None
