"""Interruptions that keep to an hour of the day, or to another job's start: signs of a shared resource.

Each test is exact, and the level is divided by the number of tests made, so that a record without a pattern gives a
false alarm less than once in :data:`LEVEL` inverse, however many labels, hours and jobs it holds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from wheeltapper.statistics.exact import binomial_at_least

LEVEL: Final = 0.005
"""Chance of any false alarm in a record without a pattern, over both kinds of test together: half of one percent."""

DAYS_MIN: Final = 5
"""A pattern has shown on so many different days: one bad night is no pattern."""

DAY_S: Final = 86_400.0
HALF_HOUR_S: Final = 1800.0
HALF_HOURS: Final = 48
WINDOW: Final = 2
"""A window of the day is an hour that begins at any full or half hour; it goes round the clock."""

AFTER_S: Final = 900.0
"""How long after another job's start an interruption may be its doing: a backup saturates storage at once."""

BESIDE: Final = 4
"""Windows of the same length before and after, in which the rate is what it is without the other job."""

JOBS_MAX: Final = 50
"""Other jobs that are tried, those that start most often: each one more makes all tests blunter."""

_PER_TEST = 2.0


@dataclass(frozen=True, slots=True)
class HourPattern:
    """Interruptions of a label keep to an hour: ``seen`` of ``whole`` occasions, where ``expected`` were by chance."""

    label: str
    hour: float
    seen: int
    whole: int
    expected: float
    probability: float

    @property
    def sentence(self) -> str:
        """The finding with its numbers."""
        begin = f"{int(self.hour):02}:{int(self.hour % 1 * 60):02}"
        return (
            f"{self.seen} of {self.whole} interruptions by {self.label} came in the hour from {begin},"
            f" where chance would bring {self.expected:.1f} (p = {self.probability:.1g}, all hours and labels counted)"
        )


@dataclass(frozen=True, slots=True)
class StartPattern:
    """Interruptions of a label follow starts of the job named ``job``."""

    label: str
    job: str
    seen: int
    whole: int
    expected: float
    probability: float

    @property
    def sentence(self) -> str:
        """The finding with its numbers."""
        return (
            f"{self.seen} interruptions by {self.label} came within {AFTER_S / 60:g} minutes after a start of job"
            f" {self.job!r}, where the time around would bring {self.expected:.1f}"
            f" (p = {self.probability:.1g}, all jobs and labels counted)"
        )


def clock(at: float) -> tuple[int, int]:
    """Return the day (a number that tells days apart) and the half hour, 0 to 47, of *at* on this machine's clock."""
    local = datetime.fromtimestamp(at)  # noqa: DTZ006 - people set their jobs by the wall clock of the place
    return local.toordinal(), local.hour * 2 + local.minute // 30


def exposure_of(spans: Iterable[tuple[float, float]], half_hour: Callable[[float], tuple[int, int]]) -> list[float]:
    """Return how many seconds of *spans* (Unix seconds) lie in each half hour of the day.

    The clock is read once for each span: a change to summer time within it moves some of its hours by one.
    """
    seconds = [0.0] * HALF_HOURS
    for begin, end in spans:
        days, rest = divmod(max(0.0, end - begin), DAY_S)
        at = end - rest
        part = half_hour(at)[1]
        while at < end:
            step = min(end, (at // HALF_HOUR_S + 1) * HALF_HOUR_S)
            seconds[part] += step - at
            at, part = step, (part + 1) % HALF_HOURS
        if days:
            for part in range(HALF_HOURS):
                seconds[part] += days * HALF_HOUR_S
    return seconds


def recurring_hours(
    events: Mapping[str, Sequence[float]], half_hour: Callable[[float], tuple[int, int]], exposure: Sequence[float] = ()
) -> list[HourPattern]:
    """Return the hours of the day to which labels keep, the clearest first, at most one for each label.

    *events* are Unix seconds by label; *half_hour* gives the day and the half hour (0 to 47) of a moment on the clock
    that people set their jobs by. *exposure* says how much ran in each half hour; equally much where it is empty.
    Interruptions of one label in one half hour of one day are one occasion: a broken switch ends many jobs at once.
    """
    occasions = {label: sorted({half_hour(at) for at in moments}) for label, moments in events.items()}
    tried = {label: found for label, found in occasions.items() if len({day for day, _ in found}) >= DAYS_MIN}
    weights = _shares(exposure)
    found = []
    for label, seen in sorted(tried.items()):
        counts = Counter(part for _, part in seen)
        days: dict[int, set[int]] = defaultdict(set)
        for day, part in seen:
            days[part].add(day)
        best: HourPattern | None = None
        for begin in range(HALF_HOURS):
            parts = [(begin + each) % HALF_HOURS for each in range(WINDOW)]
            inside = sum(counts[part] for part in parts)
            if len(set().union(*(days[part] for part in parts))) < DAYS_MIN:
                continue
            share = sum(weights[part] for part in parts)
            chance = binomial_at_least(inside, len(seen), share) * HALF_HOURS * len(tried)
            if chance <= LEVEL / _PER_TEST and (best is None or chance < best.probability):
                best = HourPattern(label, begin / 2, inside, len(seen), len(seen) * share, chance)
        if best is not None:
            found.append(best)
    return sorted(found, key=lambda each: (each.probability, each.label))


def _shares(exposure: Sequence[float]) -> list[float]:
    whole = sum(exposure)
    return [each / whole for each in exposure] if whole > 0 else [1 / HALF_HOURS] * HALF_HOURS


def co_starts(
    events: Mapping[str, Sequence[tuple[float, str]]], starts: Mapping[str, Sequence[float]]
) -> list[StartPattern]:
    """Return the jobs whose starts labels follow, the clearest first.

    *events* are moments with the name of the job that was interrupted, by label; *starts* are moments by name; all in
    Unix seconds. A job's own interruptions do not count against it: they follow its starts by nature.

    What came just after a start is compared with the time around it, not with the whole record: people work at the
    same hours as their jobs fail, and that alone must not accuse a job.
    """
    jobs = sorted(
        (name for name, moments in starts.items() if len(moments) >= DAYS_MIN),
        key=lambda name: (-len(starts[name]), name),
    )[:JOBS_MAX]
    labels = sorted(label for label, moments in events.items() if len(moments) >= DAYS_MIN)
    tests = len(jobs) * len(labels)
    sorted_events = {label: sorted(events[label]) for label in labels}
    found = []
    for name in jobs:
        after, beside = _windows(sorted(starts[name]))
        share = _length(after) / (_length(after) + _length(beside))
        for label in labels:
            moments = [at for at, interrupted in sorted_events[label] if interrupted != name]
            inside = _inside(moments, after)
            around = sum(len(each) for each in _inside(moments, beside))
            seen = sum(bool(each) for each in inside)  # one start that ends ten jobs is one occasion
            chance = binomial_at_least(seen, seen + around, share) * tests
            if seen >= DAYS_MIN and chance <= LEVEL / _PER_TEST:
                found.append(StartPattern(label, name, seen, seen + around, (seen + around) * share, chance))
    return sorted(found, key=lambda each: (each.probability, each.label, each.job))


Spans = list[tuple[float, float]]


def _windows(starts: Sequence[float]) -> tuple[Spans, Spans]:
    """Return the spans just after *starts*, and those around them that are after no start."""
    after = _merged([(at, at + AFTER_S) for at in starts])
    wide = _merged([(at - BESIDE / 2 * AFTER_S, at + (1 + BESIDE / 2) * AFTER_S) for at in starts])
    beside: Spans = []
    edges = iter([*after, (float("inf"), float("inf"))])
    begin, end = next(edges)
    for low, high in wide:
        at = low
        while begin < high:
            if begin > at:
                beside.append((at, begin))
            at = end
            begin, end = next(edges)
        if at < high:
            beside.append((at, high))
    return after, beside


def _merged(spans: Spans) -> Spans:
    whole: Spans = []
    for low, high in spans:
        if whole and low <= whole[-1][1]:
            whole[-1] = (whole[-1][0], max(high, whole[-1][1]))
        else:
            whole.append((low, high))
    return whole


def _length(spans: Spans) -> float:
    return sum(high - low for low, high in spans)


def _inside(moments: Sequence[float], spans: Spans) -> list[Sequence[float]]:
    return [moments[bisect_left(moments, low) : bisect_left(moments, high)] for low, high in spans]
