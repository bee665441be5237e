"""PCIe errors as the kernel counts them per device (Advanced Error Reporting) since it found the device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wheeltapper.checks.files import entries, pairs, text
from wheeltapper.checks.model import Host, NotApplicable, Probe
from wheeltapper.evidence import pci_address

BRIDGE = "0x0604"
"""PCI class of a bridge: its link is counted at its end, so somebody who pulls a device out makes an error here."""

SURPRISE_DOWN = "SDES"


@dataclass(frozen=True, slots=True)
class Errors:
    """The counts of one device; ``gpu`` is its address where it is a GPU of NVIDIA."""

    fatal: int
    nonfatal: int
    corrected: int
    gpu: str | None


def read(host: Host) -> Mapping[str, Errors]:
    """Return the devices of *host* that had any error, by address.

    Raises:
        NotApplicable: no device has its errors counted.
        OSError: sysfs cannot list its PCI devices.
    """
    found = {}
    counted = False
    for device in entries(host.sysfs / "bus/pci/devices"):
        if not (device / "aer_dev_fatal").exists():
            continue
        counted = True
        errors = _of(device)
        if errors.fatal or errors.nonfatal or errors.corrected:
            found[device.name] = errors
    if not counted:
        raise NotApplicable("the kernel counts no PCIe errors here (AER)")
    return found


def _of(device: Path) -> Errors:
    fatal = pairs(device / "aer_dev_fatal")
    kind = text(device / "class") or ""
    pulled = fatal.get(SURPRISE_DOWN, 0) if kind.startswith(BRIDGE) else 0
    is_gpu = text(device / "vendor") == "0x10de" and kind.startswith("0x03")
    return Errors(
        fatal.get("TOTAL_ERR_FATAL", 0) - pulled,
        pairs(device / "aer_dev_nonfatal").get("TOTAL_ERR_NONFATAL", 0),
        pairs(device / "aer_dev_correctable").get("TOTAL_ERR_COR", 0),
        pci_address(device.name) if is_gpu else None,
    )


PROBE = Probe("aer", read, keep_s=3600.0)
