"""What the operator is made of, and how it starts and stops."""

from __future__ import annotations

import asyncio
import logging
import signal

from wheeltapper.config import Config
from wheeltapper_operator.api import Api
from wheeltapper_operator.events import Events
from wheeltapper_operator.keeper import Keeper
from wheeltapper_operator.leader import Leader
from wheeltapper_operator.objects import Labels
from wheeltapper_operator.pace import Pace

log = logging.getLogger(__name__)


class Operator:
    """One replica. All of them watch, so that the next leader knows the cluster already; only the leader acts."""

    def __init__(self, api: Api, settings: Config, me: str) -> None:
        section = settings.kubernetes
        self._mode = settings.policy.mode.value
        pace = Pace(section.writes_per_s, section.writes_burst)
        self._leader = Leader(api, section.namespace, "wheeltapper-operator", me)
        # Events have a pace of their own: what people read must not hold up what protects jobs.
        self._events = Events(api, Pace(section.writes_per_s / 4, section.writes_burst))
        labels = Labels(section.pool_label, section.domain_label)
        self.keeper = Keeper(api, settings.policy, labels, pace, self._events)

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        parts = (
            self.keeper.nodes.run(),
            self.keeper.healths.run(),
            self._events.run(),
            self._leader.run(self._lead),
        )
        tasks = [asyncio.create_task(part) for part in parts]
        stopping = asyncio.create_task(stop.wait())
        try:
            ended, _ = await asyncio.wait({stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (stopping, *tasks):
                task.cancel()
            await asyncio.gather(stopping, *tasks, return_exceptions=True)
            await self._leader.resign()
        for task in ended - {stopping}:
            task.result()  # none of them ends but by a bug, and then a new process is better than half of one

    async def _lead(self) -> None:
        await self.keeper.nodes.synced.wait()
        await self.keeper.healths.synced.wait()
        log.info("Looking after %d nodes in mode %s.", len(self.keeper.nodes), self._mode)
        await self.keeper.work()
