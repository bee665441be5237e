"""What all findings tell of an attempt together, before each is judged: its end, its silence, the runs that went on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wheeltapper.attempt import Attempt, Ending
from wheeltapper.evidence import Finding, Role, Source
from wheeltapper.labels import family

SKEW_S = 60.0
"""Clock difference between nodes that is forgiven. Half a second is common, a minute is an unsynchronised node."""

COMPLETED = "run.completed"
"""The signature of a run that says that it went to its end."""

WENT_ON = "run.went_on"
"""The signature of a run that took further steps after all that its log tells of failures; see scan/log.py."""

_SURVIVABLE = frozenset({"software", "network", "unknown"})
"""Families of what programs catch and retry. A scheduler's word and a broken machine are none."""

_FATAL = "network/nccl_timeout"
"""NCCL's watchdog ends the process that it speaks in: where steps follow, the job was started again."""

_Log = tuple[str | None, str | None]
"""A node and, for a kernel log that was saved, its file: boots are told apart within one log."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known when a finding is judged; ``end`` in Unix seconds, ``window_s`` in seconds before it."""

    attempt: Attempt | None
    end: float | None
    window_s: float
    silent_from: float | None
    """When the job fell silent that was ended because it hung."""
    job_gpus: Mapping[str, tuple[str, ...]]
    boots: Mapping[_Log, str]
    earlier: Mapping[str, int]
    completed: Mapping[str, int]
    """For each log the line with which its run went to its end."""
    went_on: frozenset[str]
    """The logs whose run took further steps after all that went wrong in them."""
    job: str | None
    """The job's id: the scheduler's word for it, or the only one that the logs name."""
    something_failed: bool
    """A log or a scheduler says that something went wrong at all."""


def known_of(
    findings: Sequence[Finding], attempt: Attempt | None, window_s: float, job_gpus: Mapping[str, tuple[str, ...]]
) -> Known:
    """Return what *findings* tell of *attempt* as a whole; *window_s* is as long as what waited longest makes it."""
    end, went_on = _end(findings, attempt), _went_on(findings, attempt)
    window_s = max(window_s, _longest_wait(findings) + SKEW_S)
    return Known(
        attempt,
        end,
        window_s,
        _silent_from(findings, end, window_s),
        job_gpus,
        _newest_boots(findings),
        _earlier_lines(findings, attempt),
        _completed(findings),
        went_on,
        _job(findings, attempt),
        _something_failed(findings, attempt, went_on),
    )


def is_survivable(finding: Finding) -> bool:
    """True for what a run lives through that takes further steps."""
    return family(finding.label) in _SURVIVABLE and finding.label != _FATAL


def _end(findings: Iterable[Finding], attempt: Attempt | None) -> float | None:
    if attempt is not None and attempt.end is not None:
        return attempt.end
    logged = [each.evidence.at for each in findings if each.evidence.source is Source.JOB_LOG and each.evidence.at]
    return max(logged, default=None)


def _something_failed(findings: Iterable[Finding], attempt: Attempt | None, went_on: frozenset[str]) -> bool:
    if attempt is not None and attempt.ending is not Ending.COMPLETED:
        return True
    return any(
        each.evidence.source in {Source.JOB_LOG, Source.SCHEDULER} and each.role not in {Role.BENIGN, Role.CONFIRM}
        for each in findings
        if not (is_survivable(each) and each.evidence.file in went_on)
    )


def _longest_wait(findings: Iterable[Finding]) -> float:
    """Return how many seconds the slowest timeout waited before it spoke: what it waited for is at least that old."""
    return max((float(each.fields["ran_ms"]) / 1000 for each in findings if "ran_ms" in each.fields), default=0.0)


def _silent_from(findings: Iterable[Finding], end: float | None, window_s: float) -> float | None:
    """Return when the job fell silent that hung until its end; a silence long before the end was survived."""
    return min(
        (
            each.evidence.at - float(each.fields["quiet_s"])
            for each in findings
            if "quiet_s" in each.fields and each.evidence.at is not None and each.evidence.at >= (end or 0.0) - window_s
        ),
        default=None,
    )


def _completed(findings: Iterable[Finding]) -> dict[str, int]:
    lines: dict[str, int] = {}
    for each in findings:
        if each.signature == COMPLETED and each.evidence.file is not None:
            lines[each.evidence.file] = max(lines.get(each.evidence.file, 0), each.evidence.line or 0)
    return lines


def _went_on(findings: Sequence[Finding], attempt: Attempt | None) -> frozenset[str]:
    """Return the logs whose run went on. A scheduler that tells of an end is believed before them.

    What a program had printed may be written after its traceback, when its buffer is emptied at its end.
    """
    told_of_end = any(
        each.evidence.source is Source.SCHEDULER and each.role in {Role.ROOT, Role.SYMPTOM} for each in findings
    )
    if told_of_end or (attempt is not None and attempt.ending is not Ending.COMPLETED):
        return frozenset()
    return frozenset(each.evidence.file or "" for each in findings if each.signature == WENT_ON)


def _job(findings: Iterable[Finding], attempt: Attempt | None) -> str | None:
    if attempt is not None:
        return attempt.job
    named = {
        each.fields["id"].partition(".")[0]
        for each in findings
        if "id" in each.fields and each.evidence.source is Source.JOB_LOG
    }
    return named.pop() if len(named) == 1 else None


def _newest_boots(findings: Iterable[Finding]) -> dict[_Log, str]:
    boots: dict[_Log, str] = {}
    latest: dict[_Log, float] = {}
    for each in findings:
        seen = each.evidence
        log = (seen.node, seen.file)
        if seen.boot_id is not None and (seen.at or 0.0) >= latest.get(log, 0.0):
            boots[log], latest[log] = seen.boot_id, seen.at or 0.0
    return boots


def _earlier_lines(findings: Iterable[Finding], attempt: Attempt | None) -> dict[str, int]:
    """Return for each log the line up to which it belongs to an earlier attempt: Slurm's last word before the start.

    Only lines of Slurm's own count, because it writes the time of the cluster; a job's own clock may be in any zone.
    """
    if attempt is None or attempt.start is None:
        return {}
    lines: dict[str, int] = {}
    for each in findings:
        seen = each.evidence
        is_ending = "when" in each.fields and seen.file is not None and seen.line is not None
        if is_ending and seen.at is not None and seen.at < attempt.start - SKEW_S:
            lines[seen.file or ""] = max(lines.get(seen.file or "", 0), seen.line or 0)
    return lines
