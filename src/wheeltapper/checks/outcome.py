"""What a check says of a node now, as it is shown to people and programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from wheeltapper.evidence import Finding, Role


class Result(str, Enum):
    """``not applicable``: the node has nothing of the kind. ``unknown``: it could not be looked at."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the check *check* says; ``reason`` is a sentence, and empty only for ``ok``.

    ``findings`` stand: the check found them when it last could look. ``age_s`` is how many seconds ago that was.
    """

    check: str
    result: Result
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    age_s: float | None = None


def warns(finding: Finding) -> bool:
    """True when *finding* is something to warn of: neither a fault that convicts, nor a mere witness."""
    return not finding.convicts and finding.role not in {Role.CONFIRM, Role.BENIGN}


def concluded(
    check: str, findings: Sequence[Finding], *, absent: str = "", trouble: str = "", age_s: float | None = None
) -> Outcome:
    """Return the outcome of a check with the *findings* that stand.

    *absent* says what the node does not have, *trouble* why it could not be looked at; a fault found before stands
    until the check could look again.
    """
    kept = tuple(findings)
    said = "; ".join(each.evidence.text for each in kept if each.convicts or warns(each))
    if any(each.convicts for each in kept):
        reason = f"{said} (not looked at since: {trouble})" if trouble else said
        return Outcome(check, Result.FAIL, reason, kept, age_s)
    if trouble:
        return Outcome(check, Result.UNKNOWN, trouble, kept, age_s)
    if absent:
        return Outcome(check, Result.NOT_APPLICABLE, absent, (), age_s)
    return Outcome(check, Result.WARN if said else Result.OK, said, kept, age_s)


def of_gpus(outcome: Outcome, gpus: Sequence[str]) -> Outcome:
    """Return *outcome* without the warnings of GPUs (PCI addresses) that are not among *gpus*; what convicts stays."""
    kept = tuple(each for each in outcome.findings if each.convicts or each.evidence.gpu in {None, *gpus})
    if outcome.result is not Result.WARN or len(kept) == len(outcome.findings):
        return outcome
    return concluded(outcome.check, kept, age_s=outcome.age_s)
