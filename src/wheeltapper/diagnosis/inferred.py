"""What several findings say together that none says alone. Pure; each rule is one small module.

A rule takes the admitted findings in the order of the story and returns them, changed or with one more. What it adds
has a signature that begins with ``inferred.`` and rests on the evidence of one line that a person can look at.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from wheeltapper.diagnosis import alone, collectives, drift, firmware, fragmentation, full_disk, lost_gpu, waiting
from wheeltapper.evidence import Finding

Rule = Callable[[Sequence[Finding]], list[Finding]]

RULES: tuple[Rule, ...] = (
    firmware.with_sections,
    lost_gpu.with_witnesses,
    fragmentation.told_apart,
    full_disk.with_full_disks,
    collectives.with_mismatch,
    drift.with_odd_nodes,
    waiting.with_unfinished_data,
    alone.with_nobody_else,
)


def infer(told: Sequence[Finding]) -> list[Finding]:
    """Return *told* with all that follows from it."""
    found = list(told)
    for rule in RULES:
        found = rule(found)
    return found
