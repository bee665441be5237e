"""What the runner of the checks counts, for status and metrics."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Counts:
    """How often a probe was read since the agent started.

    ``failed`` could not be read, ``hung`` (also failed) did not end within the deadline, ``late`` began more than
    half a period after it was due.
    """

    runs: int = 0
    failed: int = 0
    hung: int = 0
    late: int = 0


class Tally:
    """Counts by the probe's name."""

    def __init__(self) -> None:
        self._counted: dict[str, Counter[str]] = {}

    def count(self, probe: str, what: str) -> None:
        """Count one *what*, a field of :class:`Counts`, for *probe*."""
        self._counted.setdefault(probe, Counter())[what] += 1

    def by_probe(self) -> dict[str, Counts]:
        """Return the counts of each probe that was read."""
        return {name: Counts(**counted) for name, counted in sorted(self._counted.items())}

    def total(self) -> Counts:
        """Return the sum over all probes."""
        return Counts(**sum(self._counted.values(), Counter()))
