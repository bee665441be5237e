"""The GPUs that PCI shows: from sysfs, which asks no driver."""

from __future__ import annotations

from pathlib import Path

from wheeltapper.evidence import pci_address

NVIDIA = "0x10de"
AMD = "0x1002"
GPU_CLASSES = ("0x0300", "0x0302", "0x0380", "0x1200")
"""PCI classes of GPUs: display controllers with an output (VGA), 3D controllers (NVIDIA's data-centre GPUs), other
display controllers and processing accelerators (AMD's Instinct)."""


def gpus_on_pci(sysfs: Path, vendor: str) -> tuple[str, ...]:
    """Return the addresses of the GPUs of *vendor* under *sysfs*, virtual functions left out.

    Raises:
        OSError: sysfs does not list its PCI devices.
    """
    found = []
    for device in sorted((sysfs / "bus/pci/devices").iterdir()):
        try:
            its_vendor = (device / "vendor").read_text(encoding="ascii").strip()
            kind = (device / "class").read_text(encoding="ascii").strip()
        except OSError:
            continue  # it went away under our hands, which is what is counted
        if its_vendor == vendor and kind.startswith(GPU_CLASSES) and not (device / "physfn").exists():
            found.append(pci_address(device.name) or device.name)
    return tuple(found)
