"""Do more processes want to run than there are processors?

By the load over the last quarter of an hour. Where it stays far above the number of processors, every rank on the node
waits for its turn. Tasks that wait for a disk or a file server count into the load as well: `hung_tasks` and
`pressure` tell those apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import Field

from wheeltapper.checks.files import text
from wheeltapper.checks.model import Check, Fault, Host, NotApplicable, Probe, Reading
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

BUSY = Fault("load", "resource/cpu_throttle", "more processes want to run than there are processors")


@dataclass(frozen=True, slots=True)
class Load:
    """The mean number of tasks that ran or wanted to over 15 minutes, and the processors that are on."""

    quarter_hour: float
    processors: int


class Limits(Section):
    """When a node counts as busy."""

    per_processor: float = Field(
        2.0, gt=0, strict=False, description="Load per processor over 15 minutes (node_exporter's rules warn at 2)."
    )


def read(host: Host) -> Load:
    """Return the load of *host*.

    Raises:
        NotApplicable: this kernel tells none.
        OSError: it cannot be read.
        ValueError: it is not what a kernel writes.
    """
    try:
        words = (host.procfs / "loadavg").read_text(encoding="ascii").split()
    except FileNotFoundError as error:
        raise NotApplicable("this kernel tells no load") from error
    processors = count(text(host.sysfs / "devices/system/cpu/online") or "0")
    if len(words) < 3:
        raise ValueError("loadavg holds no load")
    return Load(float(words[2]), processors)


def count(ranges: str) -> int:
    """Return how many numbers *ranges* names.

    >>> count("0-3,8")
    5

    Raises:
        ValueError: it is no list of ranges.
    """
    total = 0
    for each in ranges.split(","):
        first, _, last = each.partition("-")
        total += int(last or first) - int(first) + 1
    return total


def judge(readings: Sequence[Reading[Load]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield a finding when the load is too high for the processors."""
    now = readings[-1]
    load = now.value
    if load.quarter_hour > limits.per_processor * load.processors:
        words = f"the load was {load.quarter_hour:.0f} over 15 minutes, on {load.processors} processors"
        yield BUSY.seen(host, now.at, words, detail=f"load={load.quarter_hour:.0f}")


PROBE = Probe("load", read)
CHECK = Check("load", PROBE, judge, Limits)
