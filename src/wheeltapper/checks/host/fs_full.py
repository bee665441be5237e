"""Is a file system full, or almost?

Of the machine's own drives and of the network's, by bytes and by inodes. Read-only file systems, `/boot`, volumes of
single pods and `/dev/shm` (which has a check of its own) are left out. A warning, never a conviction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from wheeltapper.checks.calls import Usage
from wheeltapper.checks.host.usage import PROBE, SHM, FileSystem
from wheeltapper.checks.model import Check, Fault, Host, Reading
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

FULL = Fault("fs_full", "resource/disk_full", "a file system is almost full")

GIB = 1 << 30


class Limits(Section):
    """From when on a file system counts as full."""

    free_percent: float = Field(
        5.0,
        ge=0,
        le=100,
        strict=False,
        description="Percent of bytes or inodes free (node_exporter's rules warn at 5).",
    )
    free_enough_gib: float = Field(
        100.0,
        ge=0,
        strict=False,
        description="GiB free that are enough, whatever the percentage: 5 % of a large file system is room for weeks.",
    )


def judge(readings: Sequence[Reading[Mapping[str, FileSystem]]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each file system with too little room."""
    now = readings[-1]
    for point, each in now.value.items():
        if each.usage is None or each.mount.read_only or point == SHM:
            continue
        if what := _lacks(each.usage, limits):
            text = f"{point} has {what} left"
            yield FULL.seen(host, now.at, text, detail=f"mount={point}", device=point)


def _lacks(usage: Usage, limits: Limits) -> str:
    percent = 100 * usage.free / usage.size if usage.size else 100.0
    if percent < limits.free_percent and usage.free < limits.free_enough_gib * GIB:
        return f"{percent:.1f} % ({usage.free / GIB:.1f} GiB)"
    # File systems that make inodes as they need them count none.
    if usage.inodes and 100 * usage.inodes_free / usage.inodes < limits.free_percent:
        return f"{usage.inodes_free} of {usage.inodes} inodes"
    return ""


CHECK = Check("fs_full", PROBE, judge, Limits)
