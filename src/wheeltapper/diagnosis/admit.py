"""Which findings may speak about an attempt at all: right node, right boot, right time, right GPU, right job."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from wheeltapper.attempt import Attempt, Ending
from wheeltapper.diagnosis.model import Rejected
from wheeltapper.evidence import Finding, Role, Source
from wheeltapper.labels import family

SKEW_S = 60.0
"""Clock difference between nodes that is forgiven. Half a second is common, a minute is an unsynchronised node."""

LOOKED_S = 900.0
"""Seconds after the end in which somebody still looks at a node of the job: what a tool prints then is of its end."""

HUNG_S = 300.0
"""Seconds before a job fell silent in which what hung it may have happened: buffers hold the last words back."""

COMPLETED = "run.completed"
"""The signature of a run that says that it went to its end."""

WENT_ON = "run.went_on"
"""The signature of a run that took further steps after all that its log tells of failures; see scan/log.py."""

SURVIVABLE = frozenset({"software", "network", "unknown"})
"""Families of what programs catch, retry or restart from. A scheduler's word and a broken machine are none."""

HEARSAY = "hearsay.kernel"
"""The signature of a kernel message that a job printed."""

_Log = tuple[str | None, str | None]
"""A node and, for a kernel log that was saved, its file: boots are told apart within one log."""

_CGROUP_JOB = re.compile(r"/job_(\d+)\b")

KILLS = frozenset({"resource/host_oom", "resource/pids_limit"})
"""What ends processes by itself."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """The findings that may speak, and those that were turned down with the reason."""

    findings: tuple[Finding, ...]
    rejected: tuple[Rejected, ...]


@dataclass(frozen=True, slots=True)
class _Scene:
    """What is known of the attempt when a finding is judged."""

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


def admit(
    findings: Sequence[Finding], attempt: Attempt | None, window_s: float, job_gpus: Mapping[str, tuple[str, ...]]
) -> Admitted:
    """Return which of *findings* may speak about *attempt*."""
    end, window_s = _end(findings, attempt), max(window_s, _longest_wait(findings) + SKEW_S)
    scene = _Scene(
        attempt,
        end,
        window_s,
        _silent_from(findings, end, window_s),
        job_gpus,
        _newest_boots(findings),
        _earlier_lines(findings, attempt),
        _completed(findings),
        _went_on(findings, attempt),
        _job(findings, attempt),
        _something_failed(findings, attempt),
    )
    admitted: list[Finding] = []
    rejected: dict[tuple[str, str | None, str | None, str], Rejected] = {}
    for each in findings:
        reason = _objection(each, scene)
        if reason is None:
            admitted.append(each)
        elif each.role is Role.ROOT or each.signature == HEARSAY:
            seen = each.evidence
            one_of_a_burst = (each.signature, seen.node, seen.gpu, reason)
            rejected.setdefault(one_of_a_burst, Rejected(each.label, seen.where, reason))
    return Admitted(tuple(admitted), tuple(rejected.values()))


def _end(findings: Iterable[Finding], attempt: Attempt | None) -> float | None:
    if attempt is not None and attempt.end is not None:
        return attempt.end
    logged = [each.evidence.at for each in findings if each.evidence.source is Source.JOB_LOG and each.evidence.at]
    return max(logged, default=None)


def _something_failed(findings: Sequence[Finding], attempt: Attempt | None) -> bool:
    if attempt is not None and attempt.ending is not Ending.COMPLETED:
        return True
    went_on = _went_on(findings, attempt)
    return any(
        each.evidence.source in {Source.JOB_LOG, Source.SCHEDULER} and each.role not in {Role.BENIGN, Role.CONFIRM}
        for each in findings
        if not (family(each.label) in SURVIVABLE and each.evidence.file in went_on)
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


def _objection(finding: Finding, scene: _Scene) -> str | None:
    if finding.signature == HEARSAY:
        return "a job's log quotes the kernel, and anyone can write that; only the kernel's own log counts"
    if _was_survived(finding, scene.attempt):
        return "the scheduler counts the job as completed, so nothing of this interrupted it"
    if not scene.something_failed and _is_mild(finding):
        return "nothing says that a job failed, and a node may be like this while its jobs run"
    if finding.evidence.source in {Source.KERNEL, Source.CHECK}:
        return (
            _wrong_node(finding, scene)
            or _wrong_boot(finding, scene)
            or _wrong_time(finding, scene)
            or _wrong_gpu(finding, scene)
            or _wrong_job(finding, scene)
        )
    if finding.evidence.source is Source.SCHEDULER:
        return _wrong_node(finding, scene) or _job_of_another(finding, scene)
    if (finding.evidence.line or 0) <= scene.earlier.get(finding.evidence.file or "", -1):
        return "the log was continued, and this line is of an earlier attempt"
    if (finding.evidence.line or 0) < scene.completed.get(finding.evidence.file or "", -1):
        return "the run went to its end after it"
    if family(finding.label) in SURVIVABLE and finding.evidence.file in scene.went_on:
        return "the run went on after it, step by step"
    return None


def _is_mild(finding: Finding) -> bool:
    """True for what a check of the node found and what alone is no interruption: a warm GPU, a few link errors.

    Processes that were killed are one.
    """
    return finding.evidence.source is Source.CHECK and not finding.convicts and finding.label not in KILLS


def _was_survived(finding: Finding, attempt: Attempt | None) -> bool:
    """True for what a job that completed has lived through: all but proven faults and failures that its log tells.

    A script may hide its program's exit code, so a failure in the log is believed before the state.
    """
    if attempt is None or attempt.ending is not Ending.COMPLETED or finding.convicts:
        return False
    return finding.role is not Role.ROOT or finding.evidence.source is not Source.JOB_LOG


def _wrong_node(finding: Finding, scene: _Scene) -> str | None:
    node = finding.evidence.node
    if scene.attempt is None or not scene.attempt.nodes or node is None or node in scene.attempt.nodes:
        return None
    return f"{node} is no node of this job"


def _wrong_boot(finding: Finding, scene: _Scene) -> str | None:
    seen = finding.evidence
    if seen.boot_id is None or seen.boot_id == scene.boots.get((seen.node, seen.file)):
        return None
    if scene.attempt is None and seen.at is not None and _wrong_time(finding, scene) is None and scene.end is not None:
        return None  # from files alone: a node that crashed took the job with it, and rebooted
    return "it is from an earlier boot of the node"


def _wrong_time(finding: Finding, scene: _Scene) -> str | None:
    at = finding.evidence.at
    if at is None:
        return None
    if scene.attempt is not None and scene.attempt.start is not None and at < scene.attempt.start - SKEW_S:
        return "it happened before the job began"
    if scene.end is None:
        return None
    was_looked_at = finding.evidence.source is Source.CHECK and finding.evidence.file is not None
    if at > scene.end + (LOOKED_S if was_looked_at else SKEW_S):
        return "it happened after the job had ended"
    earliest = scene.end - scene.window_s
    if scene.silent_from is not None:
        earliest = min(earliest, scene.silent_from - HUNG_S)
    if at < earliest:
        return (
            f"it happened {(scene.end - at) / 60:.0f} minutes before the end, outside the window of "
            f"{scene.window_s / 60:.0f} minutes"
        )
    return None


def _wrong_gpu(finding: Finding, scene: _Scene) -> str | None:
    seen = finding.evidence
    mine = scene.job_gpus.get(seen.node or "", ())
    if seen.gpu is None or not mine or seen.gpu in mine:
        return None
    return f"GPU {seen.gpu} is not one of the job's on {seen.node}"


def _job_of_another(finding: Finding, scene: _Scene) -> str | None:
    named = finding.fields.get("job")
    # A task of an array or of a heterogeneous job may go by another number.
    if named is None or scene.job is None or not scene.job.isdigit() or named == scene.job:
        return None
    return f"it is of job {named}"


def _wrong_job(finding: Finding, scene: _Scene) -> str | None:
    named = _CGROUP_JOB.search(finding.fields.get("memcg") or finding.fields.get("task_memcg") or "")
    # A task of an array or of a heterogeneous job has a cgroup of another number than its name says.
    if named is None or scene.attempt is None or not scene.attempt.job.isdigit() or named[1] == scene.attempt.job:
        return None
    return f"it is of job {named[1]}"
