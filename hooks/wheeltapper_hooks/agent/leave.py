"""How a node goes out of service: by leave of the controller service or, when there is none, by its own hand."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from wheeltapper.config import Mode
from wheeltapper.evidence import Finding
from wheeltapper.policy.reason import format_reason
from wheeltapper.wire import Leave
from wheeltapper_hooks.agent.controller import Controller
from wheeltapper_hooks.agent.judge import settling_key
from wheeltapper_hooks.agent.slurm_node import SlurmNode, Standing
from wheeltapper_hooks.agent.store import Store

log = logging.getLogger(__name__)

LEAVE_S = 1.2
"""To wait for the controller service's answer; it needs one call to slurmctld for it."""

FINDINGS_MAX = 20
"""Findings named when asking for leave: the first decides, the rest are for people."""

Context = Literal["prolog", "epilog", "healthcheck"]


@dataclass(frozen=True, slots=True)
class LeaveTaker:
    """Decides on an exit code when this node has open faults."""

    boot_id: str
    mode: Mode
    controller: Controller
    node: SlurmNode
    store: Store
    settle: Callable[[Iterable[Finding]], None]

    async def take(
        self, context: Context, findings: tuple[Finding, ...], job: str | None, deadline: float
    ) -> tuple[int, str]:
        """Return the hook's exit code and a sentence; *deadline* is on the clock of ``time.monotonic``."""
        leave = Leave(self.node.name, self.boot_id, context, findings[:FINDINGS_MAX], job)
        answer = await self.controller.ask(leave, min(LEAVE_S, deadline - time.monotonic()))
        reason = format_reason(findings[0], job, time.time())
        if answer is None:
            code, sentence = await self._by_our_own_hand(findings, reason, deadline)
        elif answer.released:
            self.settle(findings)
            code, sentence = 0, f"a person put this node back to work, which settles {reason!r}"
        else:
            code, sentence = int(answer.out), answer.reason or reason
        log.warning("%s%s: exit %d, %s", context, f" of job {job}" if job else "", code, sentence)
        return code, sentence

    async def _by_our_own_hand(self, findings: tuple[Finding, ...], reason: str, deadline: float) -> tuple[int, str]:
        if self.mode is Mode.OBSERVE:
            return 0, f"in observe mode nothing is done about {reason!r}"
        keys = frozenset(map(settling_key, findings))
        try:
            standing = await self.node.standing(deadline)
            if standing is Standing.IN_SERVICE and keys <= self.store.marked("drained"):
                self.settle(findings)
                return 0, f"a person put this node back to work, which settles {reason!r}"
            if standing is Standing.IN_SERVICE:
                await self.node.drain(reason, deadline)
                standing = Standing.OURS
            if standing is Standing.OURS:
                self.store.mark("drained", keys)
        except OSError as error:
            return 1, f"{reason} (Slurm could not be told: {error})"
        return 1, f"{reason} (the node is {standing.value})"
