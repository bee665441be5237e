"""What a program says at its end may be the cause, an echo, or caught and survived: exceptions, and plainer words.

A plain exception is the last word of a traceback, and waiting ranks raise them, too. Of anything that a log says, what
it goes on from for long, only to fail of something else, was survived.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wheeltapper.diagnosis.depth import Depth, depth
from wheeltapper.evidence import Evidence, Finding, Role, Source
from wheeltapper.labels import Label

SURVIVED_S = 600.0
"""Seconds after which what the log goes on from was survived. Longer than a launcher takes to end a job."""

TIMEOUTS = frozenset({"network/nccl_timeout", "network/rendezvous", "network/transport"})
"""What makes waiting ranks raise exceptions of their own."""

BROKEN = "network/socket"
"""A connection that broke; what is raised soon after follows from it, but many a connection is made again."""

BROKEN_LINES = 200
"""Lines within which an exception follows from a broken connection: chained tracebacks of some ranks."""

_Speaker = tuple[str | None, int | None]
"""A file and a rank."""

_Latest = dict[str | None, dict[Label, float]]
"""For each file when each label was said last."""


@dataclass(frozen=True, slots=True)
class Exceptions:
    """What each file says of timeouts and failures; one pass over the story, then a look-up for each finding."""

    timeouts: Mapping[_Speaker, int]
    first_timeout: Mapping[str | None, int]
    raised: _Latest
    stated: _Latest
    broken: Mapping[str | None, Sequence[Evidence]]

    @classmethod
    def of(cls, told: Sequence[Finding]) -> Exceptions:
        """Return what *told* says of them."""
        timeouts: dict[_Speaker, int] = {}
        first_timeout: dict[str | None, int] = {}
        raised: _Latest = {}
        stated: _Latest = {}
        broken: dict[str | None, list[Evidence]] = {}
        for each in told:
            where = each.evidence
            if each.role is Role.SYMPTOM and each.label in TIMEOUTS:
                timeouts.setdefault((where.file, where.rank), where.line or 0)
                first_timeout.setdefault(where.file, where.line or 0)
            elif each.role is Role.SYMPTOM and each.label == BROKEN:
                broken.setdefault(where.file, []).append(where)
            elif each.role is Role.ROOT and where.at is not None and where.source is Source.JOB_LOG:
                latest = {Depth.EXCEPTION: raised, Depth.LOG: stated}.get(depth(each))
                if latest is not None:
                    of_file = latest.setdefault(where.file, {})
                    of_file[each.label] = max(of_file.get(each.label, where.at), where.at)
        for of_lines in broken.values():
            of_lines.sort(key=_line)
        return cls(timeouts, first_timeout, raised, stated, broken)

    def reason_against(self, finding: Finding, how_deep: Depth) -> str | None:
        """Return why *finding* is not the cause, or None. A rank that never timed out is no echo."""
        where = finding.evidence
        if how_deep is Depth.EXCEPTION and self._is_echo(finding):
            return "it came after a timeout, which explains it"
        if how_deep is Depth.EXCEPTION and self._follows_break(where):
            return "a connection had just broken, which explains it"
        if where.at is None or where.source is not Source.JOB_LOG:
            return None
        later = [at for label, at in self.stated.get(where.file, {}).items() if label != finding.label]
        if how_deep is Depth.EXCEPTION:
            later += self.raised.get(where.file, {}).values()
        if max(later, default=where.at) - where.at > SURVIVED_S:
            return "the job went on after it, so it was survived"
        return None

    def _follows_break(self, raised: Evidence) -> bool:
        broken = self.broken.get(raised.file, ())
        first = bisect_left(broken, _line(raised) - BROKEN_LINES, key=_line)
        last = bisect_left(broken, _line(raised), key=_line)
        return any(_follows(raised, each) for each in broken[first:last])

    def _is_echo(self, finding: Finding) -> bool:
        where = finding.evidence
        timed_out = self.first_timeout.get(where.file)
        if where.rank is not None and timed_out is not None:
            timed_out = self.timeouts.get((where.file, where.rank), self.timeouts.get((where.file, None)))
        return timed_out is not None and timed_out < (where.line or 0)


def _follows(raised: Evidence, broken: Evidence) -> bool:
    """True when *raised* came soon after *broken*, on the same rank as far as both tell one."""
    if raised.rank is not None and broken.rank is not None and raised.rank != broken.rank:
        return False
    return raised.at is None or broken.at is None or raised.at - broken.at <= SURVIVED_S


def _line(seen: Evidence) -> int:
    return seen.line or 0
