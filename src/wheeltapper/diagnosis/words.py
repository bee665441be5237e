"""The answer as one sentence for a person."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from wheeltapper.attempt import Attempt
from wheeltapper.diagnosis.model import Suspect
from wheeltapper.evidence import Finding, Role, Source


def sentence(root: Finding, symptom: Finding | None, suspects: Sequence[Suspect]) -> str:
    """Return what happened: the root, where it is seen, and what is only its echo."""
    told = (root.summary or root.evidence.text).rstrip(".")
    parts = [f"{_name(root)}{_place(root)}: {told}{_where(root)}"]
    if root.label.startswith("hardware/") and not root.convicts:
        parts.append("it is suspected, not proven by the node")
    if root.role is Role.SYMPTOM:
        parts.append("nothing in the evidence says why")
        if suspects:
            parts.append(f"look at {_suspects(suspects)} first")
    if symptom is not None:
        parts.append(f"the {_bare(symptom.summary or symptom.label)}{_rank(symptom)}{_where(symptom)} is its echo")
    return "; ".join(parts) + "."


def nothing_found(attempt: Attempt | None, symptom: Finding | None) -> str:
    """Return what to look at when nothing explains the end."""
    nodes = f" of {', '.join(attempt.nodes)}" if attempt and attempt.nodes else ""
    if symptom is None:
        return (
            f"nothing in the evidence speaks of a failure; look at the kernel log{nodes} and at the job's complete log."
        )
    return (
        f"nothing in the evidence explains this end; {symptom.summary}{_where(symptom)} is only an echo, so look at the"
        f" kernel log{nodes} and at the complete log of every rank."
    )


def _name(finding: Finding) -> str:
    return f"{finding.label} {finding.detail}".strip()


def _bare(summary: str) -> str:
    """Return *summary* without its article: another one stands before it."""
    first, _, rest = summary.partition(" ")
    return rest if first in {"a", "an", "the"} else summary


def _place(finding: Finding) -> str:
    seen = finding.evidence
    if seen.source is Source.JOB_LOG:
        return _rank(finding)
    node = f" on {seen.node}" if seen.node else ""
    return f"{node} GPU {seen.gpu}" if seen.gpu else node


def _rank(finding: Finding) -> str:
    return f" on rank {finding.evidence.rank}" if finding.evidence.rank is not None else ""


def _where(finding: Finding) -> str:
    seen = finding.evidence
    return f" ({PurePath(seen.file).name}:{seen.line})" if seen.file and seen.line else ""


def _suspects(suspects: Sequence[Suspect]) -> str:
    names = [each.node or (f"rank {each.rank}" if each.rank is not None else "") for each in suspects]
    return ", ".join(name for name in names if name)
