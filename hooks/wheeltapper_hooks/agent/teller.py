"""Tells the controller service how this node is: at once when it changes, and again at a slow interval.

Reports come only with jobs, and no job runs on a node that is out: without this nobody would learn of its repair.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time

from wheeltapper.verdict import State
from wheeltapper.wire import Health, JobStay
from wheeltapper_hooks.agent.boot import uptime
from wheeltapper_hooks.agent.controller import Controller
from wheeltapper_hooks.agent.leave import FINDINGS_MAX
from wheeltapper_hooks.agent.markers import Markers
from wheeltapper_hooks.agent.stays import Moment, running
from wheeltapper_hooks.agent.watch import Watch

SEND_S = 5.0
"""To wait for the answer: nobody waits with us."""


class Teller:
    """Speaks for one node. What is lost is not sent again: the next message says the same, and newer."""

    def __init__(self, watch: Watch, controller: Controller, markers: Markers) -> None:
        self._watch = watch
        self._controller = controller
        self._markers = markers

    def health(self) -> Health:
        """Return how the node is now."""
        verdict = self._watch.verdict
        held = max(0.0, uptime() - self._watch.turned_at)
        stays = self._stays() if verdict.state is State.FAIL else ()
        return Health(verdict.node, verdict.boot_id, verdict.state, held, verdict.findings[:FINDINGS_MAX], stays)

    def _stays(self) -> tuple[JobStay, ...]:
        """Return the jobs that are here with a fault: one of them may hang on it."""
        read = {job: self._markers.read(job) for job in self._markers.jobs()}
        moment = Moment(time.time(), uptime(), self._watch.boot_id)
        known = {job: marker for job, marker in read.items() if marker is not None}
        return running(known, self._watch.config.node.gpus, moment)

    async def tell_for_ever(self) -> None:
        """Tell it, for ever; no two nodes at the same moment."""
        while True:
            self._watch.turned.clear()
            await self._controller.ask(self.health(), SEND_S)
            interval = self._watch.config.agent.health_interval_s
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(
                    self._watch.turned.wait(),
                    interval * random.uniform(0.5, 1.5),  # noqa: S311 - jitter, not a secret
                )
