"""Does PCI show as many NVIDIA GPUs as this node should have?

The count comes from sysfs and the configuration, never from the driver's own tools: a node that lost a GPU must not
look like a smaller healthy one. Costs two small reads per PCI device.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wheeltapper.evidence import Disposition, Evidence, Finding, Role, Source, pci_address
from wheeltapper.labels import Label

SIGNATURE = "check.gpu_count"

NVIDIA = "0x10de"
DISPLAY_CLASSES = ("0x0302", "0x0300")
"""PCI base class 03, display controller: 3D controller (data-centre GPUs) and VGA (cards with an output)."""


def read(sysfs: Path) -> tuple[str, ...]:
    """Return the addresses of the NVIDIA GPUs that PCI shows, virtual functions left out.

    Raises:
        OSError: sysfs does not list its PCI devices.
    """
    found = []
    for device in sorted((sysfs / "bus/pci/devices").iterdir()):
        try:
            vendor = (device / "vendor").read_text(encoding="ascii").strip()
            kind = (device / "class").read_text(encoding="ascii").strip()
        except OSError:
            continue  # it went away under our hands, which is what we count
        if vendor == NVIDIA and kind.startswith(DISPLAY_CLASSES) and not (device / "physfn").exists():
            found.append(pci_address(device.name) or device.name)
    return tuple(found)


def judge(
    present: Sequence[str], expected: int, gpus: Sequence[str], *, node: str, boot_id: str, at: float
) -> tuple[Finding, ...]:
    """Return a finding when fewer than *expected* GPUs are *present*; the list *gpus* tells which one is lost."""
    if len(present) >= expected:
        return ()
    missing = [address for address in map(pci_address, gpus) if address and address not in present]
    detail = f"expected={expected} found={len(present)}"
    text = f"PCI shows {len(present)} of {expected} NVIDIA GPUs" + (
        f"; missing: {', '.join(missing)}" if missing else ""
    )
    evidence = Evidence(Source.CHECK, text, at, node, boot_id, gpu=missing[0] if missing else None)
    return (
        Finding(
            SIGNATURE,
            Label("hardware/gpu_lost"),
            Role.ROOT,
            Disposition.REBOOT,
            evidence,
            detail,
            "fewer GPUs on the PCI bus than the node should have",
        ),
    )
