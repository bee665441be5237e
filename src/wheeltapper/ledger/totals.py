"""Sums over the record: which kinds interrupt most, and which nodes were taken out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from wheeltapper.ledger.model import Interruption, Outcome, Quarantine


@dataclass(frozen=True, slots=True)
class Kind:
    """One label's share. ``requeued`` counts the interruptions after which the job was to run again."""

    label: str
    count: int
    share: float
    requeued: int
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Totals:
    """The report: kinds by count, and quarantines in the order in which they happened."""

    interruptions: int
    kinds: tuple[Kind, ...]
    quarantines: tuple[Quarantine, ...]


def totals(interruptions: Iterable[Interruption], quarantines: Iterable[Quarantine]) -> Totals:
    """Return the sums; equal counts are ordered by label, so that the same record always reads the same."""
    counts: Counter[str] = Counter()
    requeued: Counter[str] = Counter()
    nodes: dict[str, set[str]] = {}
    for each in interruptions:
        label = each.diagnosis.label
        counts[label] += 1
        requeued[label] += each.decision.job.requeue
        nodes.setdefault(label, set()).update(s.node for s in each.diagnosis.suspects if s.node is not None)
    whole = sum(counts.values())
    kinds = tuple(
        Kind(label, count, count / whole, requeued[label], tuple(sorted(nodes[label])))
        for label, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    )
    return Totals(whole, kinds, tuple(each for each in quarantines if each.outcome is not Outcome.PLANNED))
