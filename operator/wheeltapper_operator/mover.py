"""Carries a gang requeue out, one step at a time: what the next one is, :mod:`gang` says."""

from __future__ import annotations

import logging
from collections.abc import Collection

from wheeltapper_operator import gang
from wheeltapper_operator.affinity import Hosts
from wheeltapper_operator.dead_nodes import DeadNodes
from wheeltapper_operator.gang import Move, Order
from wheeltapper_operator.jobs import Job, read_names
from wheeltapper_operator.jobwriter import JobWriter
from wheeltapper_operator.kueue import Kueue
from wheeltapper_operator.objects import Node
from wheeltapper_operator.parts import Parts
from wheeltapper_operator.pods import Pod
from wheeltapper_operator.reflector import Reflector

log = logging.getLogger(__name__)


class Mover:
    """Moves the jobs of one kind."""

    def __init__(self, parts: Parts, writer: JobWriter, nodes: Reflector[Node], kueue: Kueue) -> None:
        self._parts = parts
        self._writer = writer
        self._nodes = nodes
        self._kueue = kueue
        self._dead = DeadNodes(parts, writer, nodes)

    def is_out(self, name: str) -> bool:
        """True when the node *name* is out by our doing."""
        node = self._nodes.get(name)
        return node is not None and bool(node.quarantine)

    async def step(self, job: Job, order: Order, pods: Collection[Pod]) -> bool:
        """Take the next step of *order* on *job*, of which *pods* still exist; return False when nothing is left to do.

        Raises:
            SchedulerError: the API server does not answer, or the job was changed meanwhile.
        """
        move = gang.next_move(job, order, len(pods), self._parts.clock())
        log.debug("%s: %s", job.key, move.value)
        if move is Move.SUSPEND:
            await self._suspend(job, order)
        elif move is Move.REVIVE:
            await self._writer.patch(job, gang.revived(await self._writer.read(job)), "status")
        elif move is Move.WAIT:
            await self._dead.clear(job, pods)
        elif move is Move.RESUME:
            await self._resume(job, order)
        elif move is Move.FORGET:
            await self._forget(job, order)
        return move is not Move.NOTHING

    async def _suspend(self, job: Job, order: Order) -> None:
        if job.queued and not await self._kueue.suspend(job):
            await self._forget(job)  # a person has
            return
        if order.stop:
            self._writer.tell_stopped(job, order.attempt)
        await self._writer.patch(job, gang.suspended(job, self._writer.kind, order))

    async def _resume(self, job: Job, order: Order) -> None:
        item = await self._writer.read(job)
        # Said first: when the answer to a write is lost, nothing comes back here.
        self._writer.tell_requeued(job, order.attempt)
        if job.queued:
            await self._kueue.resume(job)
        await self._writer.patch(job, gang.resumed(item, job, self._writer.kind, self._hosts(job, order)))
        self._dead.forget(job)

    async def _forget(self, job: Job, order: Order | None = None) -> None:
        if order is not None and order.stop and job.suspended:
            self._writer.tell_stopped(job, order.attempt)
        if job.queued:
            await self._kueue.forget(job)
        await self._writer.patch(job, gang.forgotten(job))
        self._dead.forget(job)

    def _hosts(self, job: Job, order: Order) -> Hosts:
        """Return the hosts to do without: those of *order*, and of those before the ones that are still out."""
        before = (name for name in read_names(job.excluded) if self.is_out(name))
        return Hosts((*before, *order.exclude), order.avoid)
