"""The machine's memory, its swap, and how often the kernel killed for want of it."""

from __future__ import annotations

from dataclasses import dataclass

from wheeltapper.checks.files import pairs
from wheeltapper.checks.model import Host, NotApplicable, Probe


@dataclass(frozen=True, slots=True)
class Memory:
    """Sizes in bytes; ``kills`` and ``swapped_out`` (pages) since boot, None where this kernel does not count."""

    total: int
    available: int
    swap: int
    swap_free: int
    kills: int | None
    swapped_out: int | None


def read(host: Host) -> Memory:
    """Return the memory of *host*.

    Raises:
        NotApplicable: this kernel tells nothing of it.
        OSError: it cannot be read.
        ValueError: it is not what a kernel writes.
    """
    try:
        told = (host.procfs / "meminfo").read_text(encoding="ascii")
    except FileNotFoundError as error:
        raise NotApplicable("this kernel tells nothing of its memory") from error
    sizes = {}
    for line in told.splitlines():
        name, _, rest = line.partition(":")
        words = rest.split()
        if words and words[0].isdigit():
            sizes[name] = int(words[0]) * 1024
    if not {"MemTotal", "MemAvailable"} <= sizes.keys():
        raise ValueError("meminfo does not tell how much memory is available")
    counted = pairs(host.procfs / "vmstat")
    return Memory(
        sizes["MemTotal"],
        sizes["MemAvailable"],
        sizes.get("SwapTotal", 0),
        sizes.get("SwapFree", 0),
        counted.get("oom_kill"),
        counted.get("pswpout"),
    )


PROBE = Probe("memory", read, keep_s=3600.0)
