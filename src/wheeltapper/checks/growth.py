"""How counters grew over the readings that are kept. Only growth speaks: links train with errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from wheeltapper.checks.model import Reading
from wheeltapper.inputs.judging.counters import per_hour

T = TypeVar("T")

Counters = Mapping[str, Mapping[str, int]]
"""Counters by device and name."""


@dataclass(frozen=True, slots=True)
class Grown:
    """A counter's growth over so many seconds."""

    device: str
    name: str
    delta: int
    seconds: float

    @property
    def hourly(self) -> float:
        """The growth per hour, as :func:`wheeltapper.inputs.judging.counters.per_hour` takes it."""
        return per_hour(self.delta, self.seconds)


def grown(
    readings: Sequence[Reading[T]], counters: Callable[[T], Counters], *, absent_is_zero: bool = False
) -> Iterator[Grown]:
    """Yield what grew over *readings*, by device and name. A value below the one before is one since a reset.

    *absent_is_zero* says that *counters* leave out what was never counted.
    """
    began = readings[0].at
    first: dict[tuple[str, str], float] = {}
    last: dict[tuple[str, str], int] = {}
    sums: dict[tuple[str, str], int] = {}
    for reading in readings:
        for key, value in _flat(counters(reading.value)):
            if absent_is_zero and reading.at > began and key not in last:
                first[key], last[key] = began, 0
            first.setdefault(key, reading.at)
            before = last.get(key, value)
            last[key] = value
            sums[key] = sums.get(key, 0) + (value - before if value >= before else value)
    for (device, name), delta in sorted(sums.items()):
        if delta:
            yield Grown(device, name, delta, readings[-1].at - first[device, name])


def _flat(counters: Counters) -> Iterator[tuple[tuple[str, str], int]]:
    for device, named in counters.items():
        for name, value in named.items():
            yield (device, name), value


def spell(readings: Sequence[Reading[T]], is_so: Callable[[T], bool]) -> float | None:
    """Return for how many seconds up to the newest of *readings* it has been so; None when it is not."""
    since = None
    for reading in reversed(readings):
        if not is_so(reading.value):
            break
        since = reading.at
    return None if since is None else readings[-1].at - since
