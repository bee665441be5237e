"""Mean time to failure, with the interval that so few failures leave open."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from wheeltapper.statistics.exact import CONFIDENCE, Interval, poisson_interval

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Rate:
    """How often something failed while it was watched for ``hours`` (of jobs, nodes or GPUs: the caller says)."""

    failures: int
    hours: float

    def __add__(self, other: Rate) -> Rate:
        return Rate(self.failures + other.failures, self.hours + other.hours)


def mttf(rate: Rate, confidence: float = CONFIDENCE) -> Interval:
    """Return hours between failures.

    Failures are taken as a Poisson process that was watched for a fixed time, so the limits are exact: with no failure
    there is a lower limit and no other, and the estimate is None.
    """
    low, high = poisson_interval(rate.failures, confidence)
    if not rate.failures:
        return Interval(None, rate.hours / high, None)
    return Interval(rate.hours / rate.failures, rate.hours / high, rate.hours / low)


def of_job(node_mttf_hours: float, nodes: int) -> float:
    """Return the MTTF in hours of a job on *nodes* nodes that fail one by one, any of which ends it."""
    return node_mttf_hours / nodes


def size_class(nodes: int) -> int:
    """Return the smallest power of two that holds *nodes*: jobs of about one size are counted together."""
    return 1 << max(0, nodes - 1).bit_length()


def by(key: Callable[[T], K], rate: Callable[[T], Rate], things: Iterable[T]) -> dict[K, Rate]:
    """Add up the rates of *things* by *key*, in the order in which the keys appear."""
    sums: dict[K, Rate] = defaultdict(lambda: Rate(0, 0.0))
    for each in things:
        sums[key(each)] += rate(each)
    return dict(sums)
