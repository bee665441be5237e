"""Looks after the nodes: whenever a node or its agent's word changes, the plan for it is made and carried out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from wheeltapper import kubernetes_names as names
from wheeltapper.ledger.model import Outcome
from wheeltapper_operator import events, objects, patches, quarantine
from wheeltapper_operator.api import JSON_PATCH, ApiError, path_of
from wheeltapper_operator.events import Regarding
from wheeltapper_operator.eviction import Evictor
from wheeltapper_operator.objects import Labels, Node, NodeHealth
from wheeltapper_operator.parts import Parts
from wheeltapper_operator.pools import Pools
from wheeltapper_operator.quarantine import Act, Plan, Step
from wheeltapper_operator.reflector import Change, Reflector
from wheeltapper_operator.work import Queue

log = logging.getLogger(__name__)

AGAIN_S = 15.0
"""How soon a node is looked at again that is out, or that the budget keeps in: nothing in the cluster tells us when a
hold is over or another node came back."""

CONFLICT_S = 5.0
"""How soon a node is looked at again that somebody changed under our hands, should the watch not bring it first."""

_REASONS = {
    Step.QUARANTINE: "Quarantined",
    Step.OBSERVE: "WouldBeQuarantined",
    Step.BLOCKED: "QuarantineBlocked",
    Step.RELEASE: "Released",
    Step.SETTLE: "ReleasedByPerson",
}

_OUTCOMES = {
    Step.QUARANTINE: Outcome.DONE,
    Step.OBSERVE: Outcome.OBSERVED,
    Step.BLOCKED: Outcome.FAILED,
    Step.RELEASE: Outcome.RELEASED,
    Step.SETTLE: Outcome.UNDONE,
}
"""Each step in the words of the record, as Slurm's side counts them."""


class Keeper:
    """The nodes of one cluster. What it plans follows from the cluster alone, so any replica may go on with it."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._policy = parts.settings.policy
        self._pools = Pools()
        self._said: dict[str, str] = {}
        self._told: dict[str, Act] = {}
        self._queue = Queue(self._look)
        section = parts.settings.kubernetes
        self._evictor = Evictor(parts) if section.evict else None
        trim = partial(objects.node, labels=Labels(section.pool_label, section.domain_label))
        self.nodes = Reflector(parts.api, path_of("v1", "nodes"), trim, self._hear_node)
        self.healths = Reflector(parts.api, path_of(names.GROUP, "nodehealths"), objects.node_health, self._hear_health)
        self.listeners: list[Callable[[Change[NodeHealth]], None]] = []

    async def work(self) -> None:
        """Look at every node once, and from then on at each that changes; for ever, while this replica leads."""
        # What was to be told when we led before may have been let go.
        self._said.clear()
        self._told.clear()
        for node in self.nodes:
            self._queue.add(node.name)
        await self._queue.run()

    def _hear_node(self, change: Change[Node]) -> None:
        self._pools.hear(change)
        if change.new is None:
            self._said.pop(change.key, None)
            self._told.pop(change.key, None)
        else:
            self._queue.add(change.key)

    def _hear_health(self, change: Change[NodeHealth]) -> None:
        self._queue.add(change.key)
        for listener in self.listeners:
            listener(change)

    async def _look(self, name: str) -> float | None:
        """Do what is to be done about the node *name*; return in how many seconds it must be looked at again."""
        node = self.nodes.get(name)
        if node is None or not (self.nodes.synced.is_set() and self.healths.synced.is_set()):
            return None if node is None else 1.0
        now = self._parts.clock()
        self._tell_act(node, now)
        plan = quarantine.plan(node, self.healths.get(name), self._pools.standing(node), self._policy, now)
        if plan.step in patches.CHANGES and not await self._change(node, plan):
            return CONFLICT_S
        self._tell(node, plan, now)
        if plan.step is Step.WAIT and self._evictor is not None:
            await self._evictor.clear(node)
        return AGAIN_S if plan.step in {Step.WAIT, Step.BLOCKED} else None

    async def _change(self, node: Node, plan: Plan) -> bool:
        """Carry out *plan*; return False when the node was changed by somebody else meanwhile."""
        if plan.step is Step.QUARANTINE:
            self._pools.reserve(node)
        try:
            await self._parts.turn()
            path = path_of("v1", "nodes", name=node.name)
            answer = await self._parts.api.patch(path, patches.of(plan, node), JSON_PATCH, fieldManager=names.MANAGER)
        except ApiError as error:
            if error.is_conflict or error.status == 404:
                log.debug("%s was changed meanwhile: %s", node.name, error)
                return False
            raise
        finally:
            self._pools.settle(node)
        self.nodes.put(answer)
        return True

    def _tell_act(self, node: Node, now: float) -> None:
        """Say what was last done about *node*, once.

        What we say follows from the record on the node: whoever wrote it may have died since, or not heard the answer.
        """
        act = quarantine.last_act(node)
        if act is None or self._told.get(node.name) == act:
            return
        self._told[node.name] = act
        if now - act.at < events.LIFE_S:
            self._say(node, act.step, act.why, act.at)

    def _tell(self, node: Node, plan: Plan, now: float) -> None:
        """Say what was done, or is not, once each time that it becomes something else."""
        if plan.step is Step.NOTHING:
            self._said.pop(node.name, None)
            return
        before, said = self._said.get(node.name), f"{plan.step.value}: {plan.why}"
        if before == said:
            return
        self._said[node.name] = said
        if plan.step in _OUTCOMES and (before or "").partition(":")[0] != plan.step.value:
            self._parts.counts.quarantines[_OUTCOMES[plan.step].value] += 1
        log.info("%s: %s", node.name, said)
        if plan.step in {Step.OBSERVE, Step.BLOCKED}:
            self._say(node, plan.step, plan.why, now)

    def _say(self, node: Node, step: Step, why: str, at: float) -> None:
        about = Regarding("v1", "Node", node.name, node.uid)
        warning = step not in {Step.RELEASE, Step.SETTLE}
        self._parts.events.tell(about, _REASONS[step], why, warning=warning, now=at)
