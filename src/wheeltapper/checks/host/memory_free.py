"""Is there memory left for a job?

By the kernel's own estimate of what programs can still have (`MemAvailable`), which counts caches as free. Below the
limit, the next larger request is answered by the kernel's killer of processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field

from wheeltapper.checks.host.memory import PROBE, Memory
from wheeltapper.checks.model import Check, Fault, Host, Reading
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

SHORT = Fault("memory_free", "resource/host_oom", "the node's memory is almost used up")

GIB = 1 << 30


class Limits(Section):
    """When memory counts as used up."""

    available_percent: float = Field(
        5.0,
        ge=0,
        le=100,
        strict=False,
        description="Percent available, over all readings of five minutes. node_exporter's rules warn at 10 after a "
        "quarter of an hour; training jobs often plan for 90 percent of a node.",
    )
    lasting_s: float = Field(300.0, ge=0, strict=False, description="Seconds that it must last: a peak passes.")


def judge(readings: Sequence[Reading[Memory]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield a finding when memory has been short for long enough."""
    now = readings[-1]
    recent = [each for each in readings if now.at - each.at <= limits.lasting_s]
    if now.at - readings[0].at < limits.lasting_s or not all(_is_short(each.value, limits) for each in recent):
        return
    text = f"{now.value.available / GIB:.1f} of {now.value.total / GIB:.1f} GiB of memory are available"
    yield SHORT.seen(host, now.at, text, detail=f"available={now.value.available / GIB:.1f}GiB")


def _is_short(memory: Memory, limits: Limits) -> bool:
    return memory.available < limits.available_percent / 100 * memory.total


CHECK = Check("memory_free", PROBE, judge, Limits)
