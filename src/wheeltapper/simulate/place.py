"""Which nodes a job is given. All but the clairvoyant see what has happened up to now, and nothing else."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection

from wheeltapper.simulate.model import Placing, Settings
from wheeltapper.simulate.trace import Fault, Trace
from wheeltapper.statistics import lemons

Rank = Callable[[str], tuple[float, int]]


class Cluster:
    """The nodes of a trace. *seed* makes the scheduler's own order."""

    def __init__(self, trace: Trace, seed: int) -> None:
        order = list(trace.nodes)
        random.Random(seed).shuffle(order)  # noqa: S311 - the order of names, no secret
        self._trace = trace
        self._order = {node: place for place, node in enumerate(order)}
        self._starts = [fault.start for fault in trace.faults]
        self._by_node: dict[str, list[Fault]] = defaultdict(list)
        for fault in trace.faults:
            self._by_node[fault.node].append(fault)

    def unfit(self, now: float) -> dict[str, Fault]:
        """Return the nodes that are unfit at *now*, with the fault that keeps them so the longest."""
        found: dict[str, Fault] = {}
        for fault in self._trace.faults[: bisect_left(self._starts, now)]:
            if fault.end > now and (fault.node not in found or found[fault.node].end < fault.end):
                found[fault.node] = fault
        return found

    def next_fault(self, nodes: Collection[str], now: float, *, people_end_jobs: bool) -> Fault | None:
        """Return the first fault from *now* on that ends a job on *nodes*."""
        for fault in self._trace.faults[bisect_left(self._starts, now) :]:
            if fault.node in nodes and (people_end_jobs or not fault.by_people):
                return fault
        return None

    def next_repair(self, now: float) -> float:
        """Return when the next unfit node is fit again."""
        return min((fault.end for fault in self.unfit(now).values()), default=self._trace.span)

    def begun(self, since: float, until: float) -> tuple[Fault, ...]:
        """Return the faults that began from *since* up to *until*."""
        return self._trace.faults[bisect_left(self._starts, since) : bisect_left(self._starts, until)]

    def choose(self, fit: Collection[str], placing: Placing, settings: Settings, now: float) -> frozenset[str] | None:
        """Return the nodes for the job out of *fit*; None when they are too few."""
        if len(fit) < settings.job_nodes:
            return None
        rank = self._rank(placing, settings, now)
        return frozenset(sorted(fit, key=rank)[: settings.job_nodes])

    def _rank(self, placing: Placing, settings: Settings, now: float) -> Rank:
        if placing is Placing.CLAIRVOYANT:
            return lambda node: (-self._next_of(node, now), self._order[node])
        past = self._trace.faults[: bisect_left(self._starts, now)]
        if placing is Placing.LAST_FAILED_LAST:
            last = {fault.node: fault.start for fault in past}
            return lambda node: (last.get(node, float("-inf")), self._order[node])
        avoided: set[str] = set()
        if placing is Placing.CAREFUL:
            known = [lemons.Fault(fault.node, fault.start, fault.end) for fault in past]
            avoided = {each.node for each in lemons.lemons(known, len(self._trace.nodes), now)}
            avoided |= {fault.node for fault in past if 0 <= now - fault.end < settings.probation_s}
        return lambda node: (float(node in avoided), self._order[node])

    def _next_of(self, node: str, now: float) -> float:
        return next((fault.start for fault in self._by_node[node] if fault.start >= now), float("inf"))
