"""Which nodes a job is given. All but the clairvoyant see what has happened up to now, and nothing else."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence

from wheeltapper.simulate.model import Placing
from wheeltapper.simulate.trace import Fault, Trace


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
        """Return the nodes that are unfit at *now*, with the fault that made them so; how long it lasts is unknown."""
        found: dict[str, Fault] = {}
        for fault in self._trace.faults[: bisect_left(self._starts, now)]:
            if fault.end > now:
                found.setdefault(fault.node, fault)
        return found

    def next_fault(self, nodes: Collection[str], now: float, *, every: bool = False) -> Fault | None:
        """Return the first fault from *now* on that ends a job on *nodes*; with *every*, all of them do."""
        for fault in self._trace.faults[bisect_left(self._starts, now) :]:
            if fault.node in nodes and (every or not fault.spares_jobs):
                return fault
        return None

    def next_repair(self, now: float) -> float:
        """Return when the next fault is over."""
        begun = self._trace.faults[: bisect_left(self._starts, now)]
        return min((fault.end for fault in begun if fault.end > now), default=self._trace.span)

    def begun(self, since: float, until: float) -> tuple[Fault, ...]:
        """Return the faults that began from *since* up to *until*."""
        return self._trace.faults[bisect_left(self._starts, since) : bisect_left(self._starts, until)]

    def choose(
        self, fit: Collection[str], size: int, placing: Placing, now: float, avoided: Sequence[str] = ()
    ) -> frozenset[str] | None:
        """Return *size* nodes out of *fit* for the job; None when they are too few.

        A careful job takes those in *avoided* last, and the first of them at the very end.
        """
        if len(fit) < size:
            return None
        rank: Callable[[str], tuple[float, int]]
        if placing is Placing.CLAIRVOYANT:
            rank = lambda node: (-self._next_of(node, now), self._order[node])  # noqa: E731
        elif placing is Placing.CAREFUL:
            worst = {node: float(place) for place, node in enumerate(reversed(avoided), start=1)}
            rank = lambda node: (worst.get(node, 0.0), self._order[node])  # noqa: E731
        else:
            rank = lambda node: (0.0, self._order[node])  # noqa: E731
        return frozenset(sorted(fit, key=rank)[:size])

    def _next_of(self, node: str, now: float) -> float:
        return next((fault.start for fault in self._by_node[node] if fault.start >= now), float("inf"))
