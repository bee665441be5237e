"""What the job sees of a lost GPU while the kernel sees its slot fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from wheeltapper.evidence import Disposition, Finding

SEEN_BY_JOB = "nvml.no_handle"
CORRECTED = "pcie.aer.corrected"

FLOOD = 5
"""Findings that are kept of a burst: more are a flood. Healthy slots print as many, so alone it says nothing."""


def with_witnesses(told: Sequence[Finding]) -> list[Finding]:
    """Return *told*, where a GPU that NVML cannot open wants inspection while a slot floods the kernel's log."""
    floods = Counter(each.evidence.node for each in told if each.signature == CORRECTED)
    if not any(times >= FLOOD for times in floods.values()):
        return list(told)
    return [replace(each, disposition=Disposition.INSPECT) if each.signature == SEEN_BY_JOB else each for each in told]
