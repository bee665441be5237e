"""How deep a finding lies: which of several roots explains the others. The smaller, the deeper."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from wheeltapper import labels
from wheeltapper.diagnosis.together import PREFIX as INFERRED
from wheeltapper.evidence import Disposition, Finding, Role, Source

EXCEPTIONS = frozenset(
    {
        "python.exception", "python.file_missing", "python.compiler",
        "versions.attribute", "versions.argument", "config.refused", "checkpoint.key", "data.batch", "cuda.refused",
    }
)  # fmt: skip
"""Signatures of an exception that says little more than that the program gave up: many are caught and survived, and
waiting ranks raise them while they are torn down."""

WAITS = frozenset({"resource/shared_fs_io"})
"""Trouble of a node that passes, and explains an end only when something waited for it."""

FULL = "filesystem."
"""How the signatures of full file systems begin: looked at after the end, they say how things stood then."""

ENDING = "ending."
"""How the signature of a scheduler's word for the end begins; there is no line behind it."""

LATE = frozenset(
    {
        "hardware/thermal", "hardware/power", "hardware/pcie", "hardware/nvlink", "hardware/nic",
        "resource/cpu_throttle", "resource/memory_bandwidth", "resource/pcie_bandwidth", "resource/shared_fs_io",
    }
)  # fmt: skip
"""What makes ranks late. Of all else that is true of a whole machine (a disk that is almost full, a drive that is worn,
an odd version) jobs say themselves when they fail of it, and many run well in spite of it."""

OF_THE_NODE = "contention.node."
"""How the signatures begin of what was counted on the whole machine while the job ran."""

NODE_WIDE = ("check.", OF_THE_NODE)
"""How the signatures begin of what is true of the whole machine, whoever caused or felt it."""


class Depth(IntEnum):
    """The order of belief. Node evidence outranks log text, and a plain exception outranks only symptoms."""

    CONVICTED = 0
    """Positive hardware evidence from the node."""
    MACHINE = 1
    """The node says that a GPU lost memory or that host memory ran out, or died."""
    LOG = 2
    """The job's log says plainly what went wrong."""
    NODE = 3
    """The node says that a link or a file server went away, or that the application's kernel failed."""
    ENDING = 4
    """The scheduler ended the job and says why."""
    EXCEPTION = 5
    """The program gave up."""
    INFERRED = 6
    """No line says it, but several together do."""
    HINT = 7
    """The node was not well, and no more than that."""
    SYMPTOM = 8
    """Something failed for a reason that lies elsewhere."""
    NONE = 9
    """No cause of anything."""


def depth(finding: Finding) -> Depth:
    """Return how deep *finding* lies."""
    if finding.convicts:
        return Depth.CONVICTED
    if finding.role is Role.SYMPTOM:
        return Depth.SYMPTOM
    if finding.role is not Role.ROOT:
        return Depth.NONE
    if finding.signature.startswith(INFERRED):
        return Depth.INFERRED
    if finding.evidence.source in {Source.KERNEL, Source.CHECK}:
        return _on_node(finding)
    if finding.signature.startswith(ENDING):
        return Depth.ENDING
    if finding.label == "resource/host_oom" and finding.signature.startswith("slurm."):
        return Depth.MACHINE
    if labels.family(finding.label) == "scheduler" or finding.label == "hardware/node_down":
        return Depth.ENDING
    return Depth.EXCEPTION if finding.signature in EXCEPTIONS else Depth.LOG


def is_node_wide(finding: Finding) -> bool:
    """True for what is true of a whole machine and convicts nothing."""
    return finding.signature.startswith(NODE_WIDE) and not finding.convicts


def _on_node(finding: Finding) -> Depth:
    family = labels.family(finding.label)
    if is_node_wide(finding) and family != "network":
        return Depth.HINT if finding.label in LATE else Depth.NONE
    if family in {"software", "network"} or finding.label in WAITS:
        return Depth.NODE
    if finding.signature.startswith(FULL):
        return Depth.HINT
    if family == "resource" or finding.label == "hardware/node_down":
        return Depth.MACHINE
    return Depth.HINT if finding.disposition is Disposition.NONE else Depth.MACHINE


def place(finding: Finding) -> tuple[str, str, int, str, str]:
    """Return where *finding* stands, for an order that does not depend on which report came first."""
    seen = finding.evidence
    node = seen.node or "" if seen.file is None else ""
    return node, seen.file or "", seen.line or seen.sequence or 0, finding.signature, seen.text


def story(findings: Sequence[Finding]) -> list[Finding]:
    """Return *findings* as they happened, as far as that can be told.

    Within a file the lines decide: a line without a time has that of the line before it, and those at the top have
    the first one's. What has no time at all comes last, in the order of file and line.
    """
    by_place = sorted(findings, key=place)
    moments: list[float] = []
    for each in by_place:
        seen = each.evidence
        if seen.at is not None:
            moments.append(seen.at)
        else:
            before = moments[-1] if moments and _same_file(by_place[len(moments) - 1], each) else None
            moments.append(before if before is not None else _first_time(by_place, len(moments)))
    order = sorted(range(len(by_place)), key=lambda number: (moments[number], number))
    return [by_place[number] for number in order]


def _same_file(one: Finding, other: Finding) -> bool:
    return one.evidence.file is not None and one.evidence.file == other.evidence.file


def _first_time(by_place: Sequence[Finding], start: int) -> float:
    for each in by_place[start:]:
        if not _same_file(each, by_place[start]):
            break
        if each.evidence.at is not None:
            return each.evidence.at
    return float("inf")
