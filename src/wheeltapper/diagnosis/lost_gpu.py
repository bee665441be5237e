"""A GPU that is gone: what the driver says twice, and what the job sees while the kernel saw the slot fail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from wheeltapper.evidence import Disposition, Finding
from wheeltapper.labels import Label
from wheeltapper.recovery import LOST

XID_79 = "nvidia.xid.79"
SEEN_BY_JOB = "nvml.no_handle"
CORRECTED = "pcie.aer.corrected"

FLOOD = 5
"""Findings that are kept of a burst: more are a flood. Healthy slots print as many, so alone it says nothing."""


def with_witnesses(told: Sequence[Finding]) -> list[Finding]:
    """Return *told* with what two witnesses prove.

    An Xid 79 whose GPU the driver also calls lost is a lost GPU; one that NVML cannot open, while a slot floods the
    kernel's log, wants inspection.
    """
    lost = {(each.evidence.node, each.evidence.gpu) for each in told if each.signature == LOST}
    floods = Counter(each.evidence.node for each in told if each.signature == CORRECTED)
    flooded = any(times >= FLOOD for times in floods.values())
    return [_witnessed(each, lost, flooded=flooded) for each in told]


def _witnessed(finding: Finding, lost: set[tuple[str | None, str | None]], *, flooded: bool) -> Finding:
    if finding.signature == XID_79 and (finding.evidence.node, finding.evidence.gpu) in lost:
        return replace(finding, label=Label("hardware/gpu_lost"))
    if finding.signature == SEEN_BY_JOB and flooded:
        return replace(finding, disposition=Disposition.INSPECT)
    return finding
