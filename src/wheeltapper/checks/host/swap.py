"""Does the node swap its jobs out?

Swap that is in use costs nothing by itself; pages that go out hour after hour while swap runs full mean that memory is
short, and ranks on this node come late. Without swap nothing is checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field

from wheeltapper.checks.growth import grown
from wheeltapper.checks.host.memory import PROBE, Memory
from wheeltapper.checks.model import Check, Fault, Host, Reading
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

SWAPPING = Fault("swap", "resource/host_oom", "the node swaps, and its swap is almost full")

GIB = 1 << 30


class Limits(Section):
    """When swapping is worth telling."""

    used_percent: float = Field(
        90.0, ge=0, le=100, strict=False, description="Percent of swap in use: systemd-oomd begins to kill at 90."
    )
    pages_per_hour: int = Field(
        100_000,
        ge=0,
        description="Pages written out in an hour (400 MB of 4 kB pages). Ours: less is an idle program's.",
    )


def judge(readings: Sequence[Reading[Memory]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield a finding when swap is almost full and still being written to."""
    now = readings[-1]
    memory = now.value
    used = memory.swap - memory.swap_free
    if not memory.swap or 100 * used < limits.used_percent * memory.swap:
        return
    for each in grown(readings, lambda value: {"swap": {"out": value.swapped_out or 0}}):
        if each.hourly > limits.pages_per_hour:
            text = (
                f"{used / GIB:.1f} of {memory.swap / GIB:.1f} GiB of swap are used, {each.delta} pages were written out"
            )
            yield SWAPPING.seen(host, now.at, text, detail=f"used={100 * used / memory.swap:.0f}%")


CHECK = Check("swap", PROBE, judge, Limits)
