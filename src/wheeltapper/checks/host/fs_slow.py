"""Does each file system answer at once?

Each is asked how full it is, a call that a file server answers without touching a disk. One that says nothing for
eight seconds, or is slow twice in a row, makes jobs wait for every file. Where only one node sees it, look at that
node's network; where all do, at the server.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from wheeltapper.checks.host.usage import PATIENCE_S, PROBE, FileSystem
from wheeltapper.checks.model import Check, Fault, Host, Reading
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

SILENT = Fault("fs_slow", "network/remote_storage", "a file system across the network does not answer")
STUCK = Fault("fs_slow", "hardware/storage", "a file system of the node's own does not answer")
SLOW = Fault("fs_slow", "resource/shared_fs_io", "a file system answers slowly")


class Limits(Section):
    """When an answer counts as slow."""

    slow_s: float = Field(
        2.0, gt=0, strict=False, description="Seconds for one answer. Ours: a healthy server takes milliseconds."
    )
    times: int = Field(2, ge=1, description="Slow answers in a row: a server that was busy once is no news.")


def judge(readings: Sequence[Reading[Mapping[str, FileSystem]]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each file system that is silent, or slow several times in a row."""
    now = readings[-1]
    for point, each in now.value.items():
        if each.usage is None:
            fault = SILENT if each.is_of_network else STUCK
            text = f"{point} ({each.mount.kind}) has said nothing for {PATIENCE_S:g} s"
            yield fault.seen(host, now.at, text, detail=f"mount={point}", device=point)
        elif _is_slow(readings, point, limits):
            text = f"{point} ({each.mount.kind}) took {each.usage.seconds:.1f} s to answer"
            yield SLOW.seen(host, now.at, text, detail=f"mount={point}", device=point)


def _is_slow(readings: Sequence[Reading[Mapping[str, FileSystem]]], point: str, limits: Limits) -> bool:
    recent = [reading.value.get(point) for reading in readings[-limits.times :]]
    slow = [each for each in recent if each and (each.usage is None or each.usage.seconds >= limits.slow_s)]
    return len(slow) == limits.times


CHECK = Check("fs_slow", PROBE, judge, Limits)
