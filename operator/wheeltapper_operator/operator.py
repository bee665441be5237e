"""What the operator is made of, and how it starts and stops."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from typing import Any

from wheeltapper import catalogue
from wheeltapper import kubernetes_names as names
from wheeltapper.config import Config
from wheeltapper.tasks import end
from wheeltapper_operator.api import Api
from wheeltapper_operator.events import Events
from wheeltapper_operator.jobkeeper import JobKeeper
from wheeltapper_operator.jobs import KINDS
from wheeltapper_operator.keeper import Keeper
from wheeltapper_operator.kueue import Kueue
from wheeltapper_operator.leader import Leader
from wheeltapper_operator.pace import Pace
from wheeltapper_operator.parts import Parts
from wheeltapper_operator.reflector import Reflector
from wheeltapper_operator.trust import Trust
from wheeltapper_operator.webhook import Webhook

log = logging.getLogger(__name__)


class Operator:
    """One replica. All of them watch, so that the next leader knows the cluster already; only the leader acts."""

    def __init__(self, api: Api, settings: Config, me: str) -> None:
        section = settings.kubernetes
        self._mode = settings.policy.mode.value
        self.leader = Leader(api, section.namespace, names.LEASE, me)
        # Events have a pace of their own: what people read must not hold up what protects jobs.
        slower = Pace(section.writes_per_s / 4, section.writes_burst)
        self._events = Events(api, slower, self.leader.may_act)
        pace = Pace(section.writes_per_s, section.writes_burst)
        known = catalogue.load(settings.diagnosis.catalogue_dirs)
        self.parts = parts = Parts(api, settings, known, pace, self._events, self.leader.may_act)
        self.keeper = Keeper(parts)
        self.kueue = Kueue(parts)
        self.jobs = [JobKeeper(parts, kind, self.keeper, self.kueue) for kind in KINDS]
        self.webhook = Webhook(section.preflight) if section.preflight.enabled else None
        self._trust = Trust(parts, self.webhook) if self.webhook is not None else None

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT."""
        stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        tasks = [asyncio.create_task(each.run()) for each in self._reflectors()]
        tasks += [asyncio.create_task(self._events.run()), asyncio.create_task(self.leader.run(self._lead))]
        # Not among the reflectors that a leader waits for: what these may not read must not keep nodes unwatched.
        beside = [self.kueue.workloads.run]
        if self.webhook is not None and self._trust is not None:
            beside += [self.webhook.run, self._trust.files.run, self._trust.trusted.run]
        tasks += [asyncio.create_task(each()) for each in beside]
        stopping = asyncio.create_task(stop.wait())
        try:
            ended, _ = await asyncio.wait({stopping, *tasks}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await end((stopping, *tasks))
            await self.leader.resign()
        for task in ended - {stopping}:
            task.result()  # none of them ends but by a bug, and then a new process is better than half of one

    def _reflectors(self) -> list[Reflector[Any]]:
        found: list[Reflector[Any]] = [self.keeper.nodes, self.keeper.healths]
        for each in self.jobs:
            found += [each.jobs, each.pods]
        return found

    def has_seen_the_cluster(self) -> bool:
        """True when every kind of object was listed once: this replica could lead now."""
        return all(each.synced.is_set() for each in self._reflectors())

    async def _lead(self) -> None:
        for each in self._reflectors():
            await each.synced.wait()
        gc.freeze()  # what was listed stays: a look through 45,000 objects for garbage would stop us for 40 ms
        jobs = sum(len(each.jobs) for each in self.jobs)
        log.info("Looking after %d nodes and %d jobs in mode %s.", len(self.keeper.nodes), jobs, self._mode)
        trust = [self._trust.keep()] if self._trust is not None else []
        await asyncio.gather(self.keeper.work(), *(each.work() for each in self.jobs), *trust)
