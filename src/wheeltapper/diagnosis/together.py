"""The shape of a finding that follows from others."""

from __future__ import annotations

from wheeltapper.evidence import Disposition, Finding, Role
from wheeltapper.labels import Label

PREFIX = "inferred."
"""How the signature of such a finding begins."""


def inferred(name: str, label: str, summary: str, rests_on: Finding, **fields: str) -> Finding:
    """Return the finding *name*, whose evidence is the line of *rests_on*."""
    return Finding(f"{PREFIX}{name}", Label(label), Role.ROOT, Disposition.NONE, rests_on.evidence, "", summary, fields)
