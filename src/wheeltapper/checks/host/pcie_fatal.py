"""Did a PCIe device have a fatal error?

The kernel's own count (AER) since it found the device. After a fatal error the link is reset and nothing that was
under way is to be trusted; the slot, riser or device will do it again. It convicts until the next boot. That a device
went away under a bridge (surprise down) is not counted here: pulling a drive does that too, and a lost GPU has its own
check.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wheeltapper.checks.host.aer import PROBE, Errors
from wheeltapper.checks.model import Check, Fault, Host, NoLimits, Reading
from wheeltapper.evidence import Finding
from wheeltapper.inputs.judging.counters import PCIE

FATAL = Fault("pcie_fatal", PCIE.label, PCIE.summary, PCIE.disposition)


def judge(readings: Sequence[Reading[Mapping[str, Errors]]], host: Host, _limits: NoLimits) -> Iterator[Finding]:
    """Yield each device that had a fatal error."""
    now = readings[-1]
    for address, each in now.value.items():
        if each.fatal:
            text = f"PCIe device {address} had {each.fatal} fatal errors since boot"
            detail = f"device={address} fatal={each.fatal}"
            yield FATAL.seen(host, now.at, text, detail=detail, device=address, gpu=each.gpu)


CHECK = Check("pcie_fatal", PROBE, judge)
