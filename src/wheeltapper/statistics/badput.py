"""Where a job's wall time went. Whatever happened, the parts sum to the whole: nothing is counted twice or not at all.

ETTR, the effective training time ratio, is the productive part of the wall time (Kokolis et al. 2024, section 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wheeltapper.statistics.exact import Interval


@dataclass(frozen=True, slots=True)
class Span:
    """One attempt of a job, in Unix seconds: when it ran, whether it completed, and when its end was understood."""

    start: float
    end: float
    completed: bool = False
    decided_at: float | None = None


@dataclass(frozen=True, slots=True)
class WallTime:
    """Seconds of a job's wall time, from its first start to its last end.

    ``productive`` work was kept, ``lost`` work was done again, ``starting`` brought attempts to where they could work,
    ``undecided`` passed from an end to the decision on it, ``waiting`` from there to the next start.
    """

    productive: float = 0.0
    lost: float = 0.0
    starting: float = 0.0
    undecided: float = 0.0
    waiting: float = 0.0

    @property
    def whole(self) -> float:
        """The sum of all parts."""
        return self.productive + self.lost + self.starting + self.undecided + self.waiting

    @property
    def ettr(self) -> float | None:
        """The productive share; None where no time passed."""
        return self.productive / self.whole if self.whole > 0 else None


def wall_time(spans: Sequence[Span], checkpoint_s: float, startup_s: float = 0.0) -> WallTime:
    """Return where the time of the job that ran in *spans* went, spans in the order of their start.

    An attempt writes a checkpoint every *checkpoint_s* after the *startup_s* that it needs to begin. Where attempts
    overlap, which a scheduler's clock can make them do, time counts for the first.
    """
    productive = lost = starting = undecided = waiting = 0.0
    done_until = spans[0].start if spans else 0.0
    decided_at: float | None = None
    for span in spans:
        if span.end <= done_until and span is not spans[0]:
            decided_at = span.decided_at
            continue
        begin = max(span.start, done_until)
        understood = min(begin, max(done_until, decided_at if decided_at is not None else done_until))
        undecided += understood - done_until
        waiting += begin - understood
        ran = max(0.0, span.end - begin)
        begun = min(ran, startup_s)
        starting += begun
        kept = ran - begun if span.completed else (ran - begun) // checkpoint_s * checkpoint_s
        productive += kept
        lost += ran - begun - kept
        done_until, decided_at = max(done_until, span.end), span.decided_at
    return WallTime(productive, lost, starting, undecided, waiting)


def closed_form(mttf_s: float, checkpoint_s: float, write_s: float, restart_s: float, detect_s: float) -> float:
    """Return the ETTR that the first-order formula expects of a job with an MTTF of *mttf_s*.

    Each failure costs half an interval, its detection and a restart; each interval costs one write (Young 1974, Daly
    2006). It holds while an interval is short against the MTTF.
    """
    work_per_interval = checkpoint_s / (checkpoint_s + write_s)
    lost_per_failure = (checkpoint_s + write_s) / 2 + detect_s + restart_s
    return work_per_interval * max(0.0, 1 - lost_per_failure / mttf_s)


def median_and_quartiles(seconds: Sequence[float]) -> Interval:
    """Return the median of *seconds* with the quartiles around it; all zero-width and None for nothing."""
    if not seconds:
        return Interval(None, 0.0, None)
    ordered = sorted(seconds)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        below = int(place)
        above = min(below + 1, len(ordered) - 1)
        return ordered[below] + (place - below) * (ordered[above] - ordered[below])

    return Interval(at(0.5), at(0.25), at(0.75))
