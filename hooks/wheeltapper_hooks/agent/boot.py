"""Which machine and which boot this is, how long ago it was, and when a kernel line was written."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from wheeltapper.checks.model import Host
from wheeltapper.config import Config


def read_boot_id(procfs: Path) -> str:
    """Return the id that the kernel gave this boot; raise ``OSError`` when it cannot be read."""
    return (procfs / "sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def host_of(settings: Config, node: str, boot_id: str) -> Host:
    """Return this machine as the checks look at it."""
    agent = settings.agent
    return Host(node, boot_id, settings.node, agent.sysfs, agent.procfs, agent.dev, agent.run, agent.root)


def uptime() -> float:
    """Return the seconds since boot on the clock of /proc/uptime, which the stubs read; that one stops at 10 ms."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(slots=True)
class KernelClock:
    """Turns the kernel log's microseconds since boot into Unix time.

    That clock is not disciplined by NTP, so on a node that is up for months it is off by minutes. What bounds the
    error: a line that was not there at the last look was written since.
    """

    looked_at: float = 0.0

    def wall(self, usec: int) -> float:
        """Return when a line of this look was written, in Unix seconds."""
        now = time.time()
        written = now - time.monotonic() + usec / 1e6
        return min(max(written, self.looked_at), now)

    def looked(self) -> None:
        """Everything written until now has been read."""
        self.looked_at = time.time()
