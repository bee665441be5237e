"""Did the kernel kill processes for want of memory within the last hour?

Counted by the kernel, whoever's limit it was: a job that outgrew its own is no fault of the node, so this is a witness
for a diagnosis and no warning. Which process it was stands in the kernel log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wheeltapper.checks.growth import grown
from wheeltapper.checks.host.memory import PROBE, Memory
from wheeltapper.checks.model import Check, Fault, Host, NoLimits, Reading
from wheeltapper.evidence import Finding, Role

KILLED = Fault("oom_kills", "resource/host_oom", "the kernel killed processes for want of memory", role=Role.CONFIRM)


def judge(readings: Sequence[Reading[Memory]], host: Host, _limits: NoLimits) -> Iterator[Finding]:
    """Yield a finding when the count grew."""
    now = readings[-1]
    for each in grown(readings, lambda value: {} if value.kills is None else {"kernel": {"kills": value.kills}}):
        text = f"the kernel killed {each.delta} processes for want of memory in {each.seconds / 60:.0f} minutes"
        yield KILLED.seen(host, now.at, text, detail=f"kills=+{each.delta}")


CHECK = Check("oom_kills", PROBE, judge)
