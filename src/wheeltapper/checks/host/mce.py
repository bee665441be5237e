"""Did a processor report a machine check that it could not correct?

Counted by the kernel since boot, in the MCE line of `/proc/interrupts`. A machine check that the machine survived has
still cost a process or its data; what it was about stands in the kernel log and in rasdaemon's. Polls that found
corrected errors (the MCP line) are not counted: memory controllers tell those themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wheeltapper.checks.model import Check, Fault, Host, NoLimits, NotApplicable, Probe, Reading
from wheeltapper.evidence import Disposition, Finding

REPORTED = Fault("mce", "hardware/host_cpu", "a processor reported a machine check", Disposition.INSPECT)


def read(host: Host) -> int:
    """Return the machine checks since boot, of all processors; one event may reach all of them.

    Raises:
        NotApplicable: this kernel counts none.
        OSError: ``/proc/interrupts`` cannot be read.
    """
    with (host.procfs / "interrupts").open(encoding="ascii", errors="replace") as lines:
        for line in lines:
            name, _, counts = line.strip().partition(":")
            if name == "MCE":
                return sum(int(word) for word in counts.split() if word.isdigit())
    raise NotApplicable("this kernel counts no machine checks")


def judge(readings: Sequence[Reading[int]], host: Host, _limits: NoLimits) -> Iterator[Finding]:
    """Yield a finding when there was one since boot."""
    now = readings[-1]
    if now.value:
        text = f"processors reported {now.value} machine checks since boot; the kernel log says of what"
        yield REPORTED.seen(host, now.at, text, detail=f"mce={now.value}")


# The file grows with processors and devices, to megabytes on large machines.
PROBE = Probe("machine_checks", read, every_s=300.0)
CHECK = Check("mce", PROBE, judge)
