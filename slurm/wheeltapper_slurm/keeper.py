"""Looks after the nodes that are out by our doing: releases them, has them rebooted, or says whom they wait for."""

from __future__ import annotations

import logging

from wheeltapper.config import Mode
from wheeltapper.errors import SchedulerDown, SchedulerError
from wheeltapper.ledger.model import Quarantine
from wheeltapper.policy import release
from wheeltapper.policy.release import Next, Step
from wheeltapper_slurm import exclusions
from wheeltapper_slurm.lasting import Kind
from wheeltapper_slurm.parts import Parts
from wheeltapper_slurm.quarantine import SLURMS_OWN
from wheeltapper_slurm.records import NodeRecord

log = logging.getLogger(__name__)

PAUSE_S = 15.0
"""Between two looks: one call to slurmctld, and only while a node is out. Never longer than a quarter of the hold."""

OUT_S = 180 * 86_400.0
"""A node that is out for half a year is looked after by people, if at all."""


class Keeper:
    """One look after another; each starts from slurmctld's own state, so nothing is lost by a restart."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._policy = parts.config.policy
        self._due = 0.0
        self._said: dict[str, str] = {}

    async def look(self) -> None:
        """Do what is due.

        Raises:
            SchedulerDown: slurmctld did not answer; the next look finds all that is left.
        """
        now = self._parts.clock()
        if now < self._due or self._policy.mode is Mode.OBSERVE:
            return
        self._due = now + min(PAUSE_S, self._policy.release.hold_s / 4)
        # The record first: what is in it was done before slurmctld is asked.
        standing = release.standing(self._parts.ledger.quarantines(since=now - OUT_S))
        if not standing and not self._parts.journal.exclusions():
            return
        nodes = {node.name: node for node in await self._parts.client.nodes()}
        for out in standing:
            if out.node in nodes:
                await self._look_at(out, nodes[out.node], now)
        history = self._parts.ledger.quarantines(since=now - OUT_S)
        await exclusions.look(self._parts, history, list(nodes.values()), now)

    async def _look_at(self, out: Quarantine, node: NodeRecord, now: float) -> None:
        if not node.drained and self._told_lately(Kind.DRAIN, out.node):
            return  # slurmctld may have forgotten it, which is looked at before a person is said to have done it
        if not node.drained:
            if await self._parts.gate.settle(out):
                self._say(out, "a person put it back to work")
                self._parts.journal.forget_reboot(out.node)
            return
        if node.reason in SLURMS_OWN:
            await self._parts.gate.again(out.node)
            return
        if node.reason != out.reason:
            self._say(out, f"it is no longer ours, a person has changed its reason to {node.reason!r}")
            return
        following = self._next(out, node, now)
        try:
            await self._take(following, out)
        except SchedulerDown:
            raise
        except SchedulerError as error:
            self._say(out, f"{following.step.value} was refused: {error}")

    def _next(self, out: Quarantine, node: NodeRecord, now: float) -> Next:
        if "NOT_RESPONDING" in node.states:
            return Next(Step.WAIT, "its slurmd does not answer")
        if node.rebooting:
            return Next(Step.WAIT, "slurmctld reboots it when it is empty")
        times = release.times_out(self._parts.ledger.quarantines(node=out.node), out.at, self._policy)
        return release.next_step(out, times, self._parts.healths.of(out.node, now), self._policy)

    async def _take(self, following: Next, out: Quarantine) -> None:
        if following.step is Step.RELEASE:
            refusal = await self._parts.gate.release(out)
            self._parts.journal.forget_reboot(out.node)
            self._say(out, refusal or f"it is released: {following.why}")
        elif following.step is Step.REBOOT and self._parts.journal.ask_reboot(out.node, out.key):
            self._parts.journal.note_deed(Kind.REBOOT.value, out.node, self._parts.clock())
            try:
                await self._parts.client.reboot(out.node, out.reason)
            except SchedulerDown:
                self._parts.journal.forget_reboot(out.node)
                raise
            self._say(out, "it is rebooted through Slurm when it is empty")
        elif following.step is not Step.REBOOT:
            self._say(out, following.why)

    def _told_lately(self, kind: Kind, name: str) -> bool:
        return any((deed.kind, deed.name) == (kind.value, name) for deed in self._parts.journal.deeds())

    def _say(self, out: Quarantine, sentence: str) -> None:
        if self._said.get(out.node) != sentence:
            log.info("%s is out for %s: %s", out.node, out.label, sentence)
        self._said[out.node] = sentence
