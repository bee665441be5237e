"""A plain exception is the last word of a traceback: it may be the cause, an echo, or caught and survived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wheeltapper.diagnosis.depth import Depth, depth
from wheeltapper.evidence import Finding, Role

SURVIVED_S = 600.0
"""Seconds after which an exception that the log goes on from was caught. Longer than a launcher takes to end a job."""

TIMEOUTS = frozenset({"network/nccl_timeout", "network/rendezvous", "network/transport"})
"""What makes waiting ranks raise exceptions of their own."""

_Speaker = tuple[str | None, int | None]
"""A file and a rank."""


@dataclass
class Exceptions:
    """What each file says of timeouts and of exceptions; one pass over the story, then a look-up for each exception."""

    timeouts: dict[_Speaker, int] = field(default_factory=dict)
    first_timeout: dict[str | None, int] = field(default_factory=dict)
    last_raised: dict[str | None, float] = field(default_factory=dict)

    @classmethod
    def of(cls, told: Sequence[Finding]) -> Exceptions:
        """Return what *told* says of them."""
        seen = cls()
        for each in told:
            where = each.evidence
            line = where.line or 0
            if each.role is Role.SYMPTOM and each.label in TIMEOUTS:
                seen.timeouts.setdefault((where.file, where.rank), line)
                seen.first_timeout.setdefault(where.file, line)
            elif where.at is not None and depth(each) is Depth.EXCEPTION:
                seen.last_raised[where.file] = max(seen.last_raised.get(where.file, where.at), where.at)
        return seen

    def reason_against(self, finding: Finding) -> str | None:
        """Return why the exception in *finding* is not the cause, or None. A rank that never timed out is no echo."""
        where = finding.evidence
        timed_out = self.first_timeout.get(where.file)
        if where.rank is not None and timed_out is not None:
            timed_out = self.timeouts.get((where.file, where.rank), self.timeouts.get((where.file, None)))
        if timed_out is not None and timed_out < (where.line or 0):
            return "it came after a timeout, which explains it"
        if where.at is not None and self.last_raised.get(where.file, where.at) - where.at > SURVIVED_S:
            return "the job went on after it, so it was caught"
        return None
