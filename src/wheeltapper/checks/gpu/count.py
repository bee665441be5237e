"""Does PCI show as many NVIDIA GPUs as this node should have?

The count comes from sysfs and the configuration, never from the driver's own tools: a node that lost a GPU must not
look like a smaller healthy one. Costs two small reads per PCI device. Without ``node.expected_gpus`` nothing is
checked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wheeltapper.checks.gpu.pci_gpus import NVIDIA, gpus_on_pci
from wheeltapper.checks.model import Check, Fault, Host, NoLimits, NotApplicable, Probe, Reading
from wheeltapper.evidence import Disposition, Finding, pci_address

LOST = Fault(
    "gpu_count", "hardware/gpu_lost", "fewer GPUs on the PCI bus than the node should have", Disposition.REBOOT
)


def read(host: Host) -> tuple[str, ...]:
    """Return the addresses of the NVIDIA GPUs that PCI shows, virtual functions left out.

    Raises:
        NotApplicable: how many there should be is not known.
        OSError: sysfs does not list its PCI devices.
    """
    if host.expected.expected_gpus is None:
        raise NotApplicable("node.expected_gpus is not set")
    return gpus_on_pci(host.sysfs, NVIDIA)


def judge(readings: Sequence[Reading[tuple[str, ...]]], host: Host, _limits: NoLimits) -> Iterator[Finding]:
    """Yield a finding when fewer GPUs are present than expected; ``node.gpus`` tells which one is lost."""
    now = readings[-1]
    expected = host.expected.expected_gpus or 0
    if len(now.value) >= expected:
        return
    missing = [address for address in map(pci_address, host.expected.gpus) if address and address not in now.value]
    text = f"PCI shows {len(now.value)} of {expected} NVIDIA GPUs" + (
        f"; missing: {', '.join(missing)}" if missing else ""
    )
    detail = f"expected={expected} found={len(now.value)}"
    yield LOST.seen(host, now.at, text, detail=detail, gpu=missing[0] if missing else None)


PROBE = Probe("pci_gpus", read, every_s=10.0)
CHECK = Check("gpu_count", PROBE, judge)
