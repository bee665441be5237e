"""Exact tails and intervals of counts. The few functions that are needed here, so that no numeric library is.

The incomplete gamma function is computed by its series and its continued fraction, each where it converges
(Abramowitz and Stegun, Handbook of Mathematical Functions, 6.5.29 and 6.5.31).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, lgamma, log, log1p
from typing import Final

CONFIDENCE: Final = 0.95

_TINY = 1e-300
_CLOSE = 1e-14
_STEPS = 100_000


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its limits; ``high`` is None where the data set no upper limit."""

    value: float | None
    low: float
    high: float | None


def gamma_upper(shape: float, x: float) -> float:
    """Return the regularised upper incomplete gamma function Q(*shape*, *x*)."""
    if x <= 0:
        return 1.0
    front = exp(shape * log(x) - x - lgamma(shape))
    if x < shape + 1:
        term = total = 1.0 / shape
        for step in range(1, _STEPS):
            term *= x / (shape + step)
            total += term
            if term < total * _CLOSE:
                break
        return max(0.0, 1.0 - front * total)
    beside = x + 1.0 - shape
    ahead = 1.0 / _TINY
    below = 1.0 / beside
    value = below
    for step in range(1, _STEPS):
        factor = -step * (step - shape)
        beside += 2.0
        below = 1.0 / (_not_zero(factor * below + beside))
        ahead = _not_zero(beside + factor / ahead)
        change = below * ahead
        value *= change
        if abs(change - 1.0) < _CLOSE:
            break
    return front * value


def _not_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def poisson_at_most(count: int, mean: float) -> float:
    """Return the probability of *count* or fewer events where *mean* are expected."""
    return 0.0 if count < 0 else gamma_upper(count + 1.0, mean)


def poisson_interval(count: int, confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Return the exact limits (Garwood 1936) of the mean of which *count* events were seen."""
    tail = (1 - confidence) / 2
    top = count + 10.0 * (count + 10.0) ** 0.5 + 20.0
    high = _root(lambda mean: poisson_at_most(count, mean) - tail, 0.0, top)
    if count == 0:
        return 0.0, high
    return _root(lambda mean: tail - (1 - poisson_at_most(count - 1, mean)), 0.0, top), high


def _root(falling: Callable[[float], float], low: float, high: float) -> float:
    """Return where *falling* crosses zero between *low* and *high*, by halving."""
    for _ in range(200):
        middle = (low + high) / 2
        if middle in {low, high}:
            break
        if falling(middle) > 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def binomial_at_least(count: int, trials: int, share: float) -> float:
    """Return the probability of *count* or more successes in *trials* that succeed with probability *share* each."""
    if count <= 0:
        return 1.0
    if count > trials or share <= 0:
        return 0.0
    if share >= 1:
        return 1.0
    odds = share / (1 - share)
    term = exp(
        lgamma(trials + 1)
        - lgamma(count + 1)
        - lgamma(trials - count + 1)
        + count * log(share)
        + (trials - count) * log1p(-share)
    )
    total = term
    for successes in range(count, trials):
        term *= (trials - successes) / (successes + 1) * odds
        total += term
        if term < total * _CLOSE:
            break
    return min(1.0, total)


def share_interval(count: int, trials: int, confidence: float = CONFIDENCE) -> Interval:
    """Return the exact limits (Clopper and Pearson 1934) of a share of which *count* in *trials* were seen."""
    if trials == 0:
        return Interval(None, 0.0, 1.0)
    tail = (1 - confidence) / 2
    low = 0.0 if count == 0 else _root(lambda share: tail - binomial_at_least(count, trials, share), 0.0, 1.0)
    high = 1.0
    if count < trials:
        high = _root(lambda share: 1 - binomial_at_least(count + 1, trials, share) - tail, 0.0, 1.0)
    return Interval(count / trials, low, high)
