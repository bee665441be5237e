"""Tells the controller service how this node is: at once when it changes, and again at a slow interval.

Reports come only with jobs, and no job runs on a node that is out: without this nobody would learn of its repair.
"""

from __future__ import annotations

import asyncio
import contextlib
import random

from wheeltapper.wire import Health
from wheeltapper_hooks.agent.boot import uptime
from wheeltapper_hooks.agent.controller import Controller
from wheeltapper_hooks.agent.leave import FINDINGS_MAX
from wheeltapper_hooks.agent.watch import Watch

SEND_S = 5.0
"""To wait for the answer: nobody waits with us."""


class Teller:
    """Speaks for one node. What is lost is not sent again: the next message says the same, and newer."""

    def __init__(self, watch: Watch, controller: Controller) -> None:
        self._watch = watch
        self._controller = controller

    def health(self) -> Health:
        """Return how the node is now."""
        verdict = self._watch.verdict
        held = max(0.0, uptime() - self._watch.turned_at)
        return Health(verdict.node, verdict.boot_id, verdict.state, held, verdict.findings[:FINDINGS_MAX])

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
