"""How figures are measured: all candidates in turn, many times, so that what disturbs the machine disturbs them alike."""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value and what it is compared with; ``ratio`` is value over baseline_value, ``n`` counts runs."""

    figure: str
    value: float
    unit: str
    baseline: str
    baseline_value: float
    ratio: float
    n: int

    def __str__(self) -> str:
        value, baseline = f"{self.value:9.3f} {self.unit}", f"{self.baseline_value:9.3f} {self.unit}"
        return f"{self.figure:<28}{value}   {baseline}  {self.baseline} (x{self.ratio:.2f}, n={self.n})"

    def json(self) -> str:
        """Return the figure as one line."""
        return json.dumps(asdict(self))


def compared(
    figure: str, values: Sequence[float], unit: str, baseline: str, against: Sequence[float], at: float
) -> Figure:
    """Return a figure of the quantile *at* (0.5 is the median) of *values*, beside that of *against*."""
    value, reference = quantile(values, at), quantile(against, at)
    return Figure(
        figure, round(value, 4), unit, baseline, round(reference, 4), round(value / reference, 4), len(values)
    )


def quantile(values: Sequence[float], at: float) -> float:
    """Return the quantile *at* (0 to 1) of *values*."""
    cuts = statistics.quantiles(values, n=1000, method="inclusive")
    return cuts[round(at * 1000) - 1]


def in_turn(candidates: Mapping[str, Callable[[], float]], runs: int, title: str) -> dict[str, list[float]]:
    """Run each of *candidates* *runs* times, one after the other; each returns what one run of it measured."""
    for candidate in candidates.values():
        candidate()  # once for the caches
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(1, runs + 1):
        for name, candidate in candidates.items():
            samples[name].append(candidate())
        progress(title, number, runs)
    return samples


def process_ms(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """Return the milliseconds from the start of *command* to its end; it must succeed."""
    nothing = [(os.POSIX_SPAWN_OPEN, fd, "/dev/null", os.O_RDWR, 0) for fd in (0, 1, 2)]
    began = time.perf_counter()
    child = os.posix_spawn(command[0], command, environment, file_actions=nothing)
    _, status = os.waitpid(child, 0)
    took = (time.perf_counter() - began) * 1000
    if status:
        raise RuntimeError(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return took


def progress(title: str, number: int, total: int) -> None:
    """Show how far *title* is, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r{title}: {number}/{total}", end="\n" if number == total else "", file=sys.stderr, flush=True)
