"""How many nodes may be out at once. Level-triggered: it reads the scheduler's own state and remembers nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wheeltapper.config import BudgetSection


@dataclass(frozen=True, slots=True)
class Share:
    """One partition or node pool: how many nodes it has, and how many of them we have taken out."""

    size: int
    out: int


@dataclass(frozen=True, slots=True)
class Standing:
    """The shares of all partitions and of all failure domains that one node belongs to, each by its name."""

    partitions: Mapping[str, Share]
    domains: Mapping[str, Share]


def limit(size: int, budget: BudgetSection) -> int:
    """Return how many of *size* nodes may be out at once; never less than one."""
    by_percent = int(size * budget.max_percent / 100)
    return max(1, by_percent if budget.max_nodes is None else min(by_percent, budget.max_nodes))


def refused(standing: Standing, budget: BudgetSection) -> str | None:
    """Return why one more node may not be taken out, as a sentence; None when it may."""
    of_domains = budget.model_copy(update={"max_percent": budget.domain_max_percent, "max_nodes": None})
    return refusal(standing.partitions, budget) or refusal(standing.domains, of_domains)


def refusal(shares: Mapping[str, Share], budget: BudgetSection) -> str | None:
    """Return why one more node may not be taken out of these partitions, as a sentence; None when it may."""
    for name, share in sorted(shares.items()):
        most = limit(share.size, budget)
        if share.out >= most:
            return f"{share.out} of {share.size} nodes of {name} are out already and the budget is {most}"
    return None
