"""Is there enough shared memory in /dev/shm?

NCCL and the workers of a DataLoader share memory there, gigabytes of it; what does not fit ends as a bus error. It is
too small when a container's default was left in place, and full when an earlier job left its files behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from wheeltapper.checks.host.usage import PROBE, SHM, FileSystem
from wheeltapper.checks.model import Check, Fault, Host, Reading
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

SHORT = Fault("shm", "resource/shm", "shared memory is short")

GIB = 1 << 30


class Limits(Section):
    """How much shared memory jobs need."""

    size_gib: float = Field(
        1.0, ge=0, strict=False, description="GiB in all. Ours: Docker's default of 64 MB stops every multi-worker job."
    )
    free_percent: float = Field(
        10.0, ge=0, le=100, strict=False, description="Percent free. Ours: no public figure; jobs take it by gigabytes."
    )


def judge(readings: Sequence[Reading[Mapping[str, FileSystem]]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield a finding when it is too small or too full."""
    now = readings[-1]
    told = now.value.get(SHM)
    if told is None or told.usage is None:
        return
    size, free = told.usage.size, told.usage.free
    if size < limits.size_gib * GIB:
        text = f"{SHM} is {size / GIB:.2f} GiB in all, and should be at least {limits.size_gib:g}"
        yield SHORT.seen(host, now.at, text, detail=f"size={size / GIB:.2f}GiB")
    elif free < limits.free_percent / 100 * size:
        text = f"{SHM} has {free / GIB:.1f} of {size / GIB:.1f} GiB left"
        yield SHORT.seen(host, now.at, text, detail=f"free={free / GIB:.1f}GiB")


CHECK = Check("shm", PROBE, judge, Limits)
