"""The job's AdminComment: the label where people already look, one entry per attempt, other people's text kept."""

from __future__ import annotations

from wheeltapper.diagnosis.model import Diagnosis
from wheeltapper.policy.model import JobAction

PREFIX = "wheeltapper: "
SEPARATOR = "; "
MAX_CHARS = 1000
"""slurmctld takes more, but `sacct` and `scontrol` show it on one line, and Comment stops at 1024."""


def entry(number: int, diagnosis: Diagnosis, job: JobAction) -> str:
    """Return the entry of attempt *number*: the label, where it is proven, and what follows."""
    name = " ".join(part for part in (diagnosis.label, diagnosis.detail) if part)
    root = diagnosis.root
    proof = ""
    if root is not None:
        words = " ".join(root.evidence.text.split())[:160]
        proof = f" at {root.evidence.where}: {words!r}"
    done = "requeued" if job.requeue else "not requeued"
    return f"a{number} {name}{proof} -> {done}, {job.reason}".replace(SEPARATOR, ", ")


def merge(present: str, new: str) -> str:
    """Return the comment *present* with the entry *new*: foreign text first, then our entries, the oldest dropped."""
    foreign, _, ours = present.partition(PREFIX)
    entries = [part for part in ours.split(SEPARATOR) if part]
    number = new.split(" ", 1)[0]
    entries = [part for part in entries if part.split(" ", 1)[0] != number] + [new]
    while len(entries) > 1 and len(SEPARATOR.join(entries)) > MAX_CHARS:
        entries.pop(0)
    return f"{foreign}{PREFIX}{SEPARATOR.join(entries)[:MAX_CHARS]}"
