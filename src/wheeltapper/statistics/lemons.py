"""Repeat offenders, and nodes that were repaired just now: judged by what has happened before, and never by what came.

A fault weighs one when it happens and half of that thirty days later: long enough to see a node twice, short enough
to forgive one that was really repaired. With a weight of one and more a node has failed at least twice of late.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import expm1, floor
from typing import Final

from wheeltapper.statistics.exact import Interval, share_interval

DAY_S: Final = 86_400.0
HALF_LIFE_S: Final = 30 * DAY_S
WEIGHT_MIN: Final = 1.0
MOST_SHARE: Final = 0.05
"""Nodes that are flagged at most: a list that names every tenth node names none."""

AGAIN_S: Final = 30 * DAY_S


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of a node, in Unix seconds; ``repaired_at`` is None while it lasts."""

    node: str
    at: float
    repaired_at: float | None = None


@dataclass(frozen=True, slots=True)
class Lemon:
    """A repeat offender: ``faults`` in all, ``weight`` of them of late."""

    node: str
    faults: int
    weight: float

    @property
    def sentence(self) -> str:
        """The finding with its numbers."""
        return f"{self.node} has had {self.faults} faults, which weigh {self.weight:.1f} where a healthy node has 0"


def lemons(faults: Iterable[Fault], nodes: int, now: float, most_share: float = MOST_SHARE) -> list[Lemon]:
    """Return the repeat offenders of a cluster of *nodes* as they are known at *now*, the worst first.

    Later faults are left out here, so that nobody can hand in the future by mistake.
    """
    weights: dict[str, float] = defaultdict(float)
    counts: dict[str, int] = defaultdict(int)
    for each in faults:
        if each.at < now:
            weights[each.node] += 0.5 ** ((now - each.at) / HALF_LIFE_S)
            counts[each.node] += 1
    bad = [Lemon(node, counts[node], weight) for node, weight in weights.items() if weight >= WEIGHT_MIN]
    return sorted(bad, key=lambda each: (-each.weight, each.node))[: floor(nodes * most_share)]


@dataclass(frozen=True, slots=True)
class Foresight:
    """How well flags foretold faults. ``covered`` of ``later`` faults fell on nodes that were flagged the day before;
    of ``flagged`` nodes that were newly flagged, ``again`` failed within thirty days; ``base`` is that share for any
    node.
    """

    later: int
    covered: int
    flagged: int
    again: int
    base: float
    most_share: float

    @property
    def coverage(self) -> float | None:
        """The share of later faults that fell on flagged nodes."""
        return self.covered / self.later if self.later else None

    @property
    def precision(self) -> Interval:
        """The share of newly flagged nodes that failed again within thirty days."""
        return share_interval(self.again, self.flagged)


def foresight(faults: Sequence[Fault], nodes: int, begin: float, end: float, step: float = DAY_S) -> Foresight:
    """Judge :func:`lemons` forward from *begin* to *end*: each *step*, on what was known then, against what came."""
    ordered = sorted(faults, key=lambda each: each.at)
    moments = [each.at for each in ordered]
    by_node: dict[str, list[float]] = defaultdict(list)
    for each in ordered:
        by_node[each.node].append(each.at)
    later = covered = flagged = again = steps = failing = 0
    most, before = 0, frozenset[str]()
    now = begin
    while now < end:
        named = frozenset(each.node for each in lemons(ordered[: bisect_left(moments, now)], nodes, now))
        coming = ordered[bisect_left(moments, now) : bisect_left(moments, min(now + step, end))]
        later += len(coming)
        covered += sum(each.node in named for each in coming)
        most = max(most, len(named))
        if now + AGAIN_S <= end:
            flagged += len(named - before)
            again += sum(_within(by_node[node], now, AGAIN_S) for node in named - before)
            failing += sum(_within(each, now, AGAIN_S) for each in by_node.values())
            steps += 1
        before = named
        now += step
    return Foresight(later, covered, flagged, again, failing / (nodes * steps) if steps else 0.0, most / nodes)


def _within(moments: Sequence[float], now: float, span: float) -> bool:
    place = bisect_left(moments, now)
    return place < len(moments) and moments[place] < now + span


@dataclass(frozen=True, slots=True)
class AfterRepair:
    """How often a repaired node failed again within ``days``, and how often any node does in that time."""

    days: float
    repairs: int
    again: int
    base: float

    @property
    def share(self) -> Interval:
        """The share of repairs after which the node failed again."""
        return share_interval(self.again, self.repairs)


def after_repair(
    faults: Sequence[Fault], nodes: int, begin: float, end: float, days: Iterable[float]
) -> list[AfterRepair]:
    """Return for each number of *days* what followed repairs; *begin* and *end* bound what was watched."""
    by_node: Mapping[str, list[Fault]] = defaultdict(list)
    for each in sorted(faults, key=lambda each: each.at):
        by_node[each.node].append(each)
    found = []
    for span in days:
        repairs = again = 0
        for own in by_node.values():
            moments = [each.at for each in own]
            for each in own:
                if each.repaired_at is None or each.repaired_at + span * DAY_S > end:
                    continue
                repairs += 1
                again += _within(moments, each.repaired_at, span * DAY_S)
        rate = len(faults) / (nodes * (end - begin)) if end > begin else 0.0
        found.append(AfterRepair(span, repairs, again, -expm1(-rate * span * DAY_S)))
    return found
