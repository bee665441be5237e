"""Which findings may speak about an attempt at all: right node, right boot, right time, right GPU, right job."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wheeltapper.attempt import Attempt, Ending
from wheeltapper.diagnosis.known import SKEW_S, Known, is_survivable, known_of
from wheeltapper.diagnosis.model import Rejected
from wheeltapper.evidence import Finding, Role, Source

LOOKED_S = 900.0
"""Seconds after the end in which somebody still looks at a node of the job: what a tool prints then is of its end."""

HUNG_S = 300.0
"""Seconds before a job fell silent in which what hung it may have happened: buffers hold the last words back."""

HEARSAY = "hearsay.kernel"
"""The signature of a kernel message that a job printed."""

_CGROUP_JOB = re.compile(r"/job_(\d+)\b")

KILLS = frozenset({"resource/host_oom", "resource/pids_limit"})
"""What ends processes by itself."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """The findings that may speak, and those that were turned down with the reason."""

    findings: tuple[Finding, ...]
    rejected: tuple[Rejected, ...]


def admit(
    findings: Sequence[Finding], attempt: Attempt | None, window_s: float, job_gpus: Mapping[str, tuple[str, ...]]
) -> Admitted:
    """Return which of *findings* may speak about *attempt*."""
    known = known_of(findings, attempt, window_s, job_gpus)
    admitted: list[Finding] = []
    rejected: dict[tuple[str, str | None, str | None, str], Rejected] = {}
    for each in findings:
        reason = _objection(each, known)
        if reason is None:
            admitted.append(each)
        elif each.role is Role.ROOT or each.signature == HEARSAY:
            seen = each.evidence
            one_of_a_burst = (each.signature, seen.node, seen.gpu, reason)
            rejected.setdefault(one_of_a_burst, Rejected(each.label, seen.where, reason))
    return Admitted(tuple(admitted), tuple(rejected.values()))


def _objection(finding: Finding, known: Known) -> str | None:
    if finding.signature == HEARSAY:
        return "a job's log quotes the kernel, and anyone can write that; only the kernel's own log counts"
    if _was_survived(finding, known.attempt):
        return "the scheduler counts the job as completed, so nothing of this interrupted it"
    if not known.something_failed and _is_mild(finding):
        return "nothing says that a job failed, and a node may be like this while its jobs run"
    if finding.evidence.source in {Source.KERNEL, Source.CHECK}:
        return (
            _wrong_node(finding, known)
            or _wrong_boot(finding, known)
            or _wrong_time(finding, known)
            or _wrong_gpu(finding, known)
            or _wrong_job(finding, known)
        )
    if finding.evidence.source is Source.SCHEDULER:
        return _wrong_node(finding, known) or _job_of_another(finding, known)
    if (finding.evidence.line or 0) <= known.earlier.get(finding.evidence.file or "", -1):
        return "the log was continued, and this line is of an earlier attempt"
    if (finding.evidence.line or 0) < known.completed.get(finding.evidence.file or "", -1):
        return "the run went to its end after it"
    if is_survivable(finding) and finding.evidence.file in known.went_on:
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


def _wrong_node(finding: Finding, known: Known) -> str | None:
    node = finding.evidence.node
    if known.attempt is None or not known.attempt.nodes or node is None or node in known.attempt.nodes:
        return None
    return f"{node} is no node of this job"


def _wrong_boot(finding: Finding, known: Known) -> str | None:
    seen = finding.evidence
    if seen.boot_id is None or seen.boot_id == known.boots.get((seen.node, seen.file)):
        return None
    if known.attempt is None and seen.at is not None and _wrong_time(finding, known) is None and known.end is not None:
        return None  # from files alone: a node that crashed took the job with it, and rebooted
    return "it is from an earlier boot of the node"


def _wrong_time(finding: Finding, known: Known) -> str | None:
    at = finding.evidence.at
    if at is None:
        return None
    if known.attempt is not None and known.attempt.start is not None and at < known.attempt.start - SKEW_S:
        return "it happened before the job began"
    if known.end is None:
        return None
    was_looked_at = finding.evidence.source is Source.CHECK and finding.evidence.file is not None
    if at > known.end + (LOOKED_S if was_looked_at else SKEW_S):
        return "it happened after the job had ended"
    earliest = known.end - known.window_s
    if known.silent_from is not None:
        earliest = min(earliest, known.silent_from - HUNG_S)
    if at < earliest:
        return (
            f"it happened {(known.end - at) / 60:.0f} minutes before the end, outside the window of "
            f"{known.window_s / 60:.0f} minutes"
        )
    return None


def _wrong_gpu(finding: Finding, known: Known) -> str | None:
    seen = finding.evidence
    mine = known.job_gpus.get(seen.node or "", ())
    if seen.gpu is None or not mine or seen.gpu in mine:
        return None
    return f"GPU {seen.gpu} is not one of the job's on {seen.node}"


def _job_of_another(finding: Finding, known: Known) -> str | None:
    named = finding.fields.get("job")
    # A task of an array or of a heterogeneous job may go by another number.
    if named is None or known.job is None or not known.job.isdigit() or named == known.job:
        return None
    return f"it is of job {named}"


def _wrong_job(finding: Finding, known: Known) -> str | None:
    named = _CGROUP_JOB.search(finding.fields.get("memcg") or finding.fields.get("task_memcg") or "")
    # A task of an array or of a heterogeneous job has a cgroup of another number than its name says.
    if named is None or known.attempt is None or not known.attempt.job.isdigit() or named[1] == known.attempt.job:
        return None
    return f"it is of job {named[1]}"
