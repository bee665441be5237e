"""The network interfaces that are hardware: carrier, speed and duplex."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from wheeltapper.checks.files import entries, number, text
from wheeltapper.checks.model import Host, NotApplicable, Probe

IFF_UP = 0x1
ETHERNET = 1
"""ARPHRD_ETHER of the kernel; InfiniBand's interfaces are told by their ports."""


@dataclass(frozen=True, slots=True)
class Link:
    """An interface; ``mbps`` is None where the driver does not know. ``carried`` says that packets came in."""

    is_up: bool
    has_carrier: bool
    carrier_changes: int
    mbps: int | None
    duplex: str
    carried: bool


def hardware(host: Host) -> list[Path]:
    """Return the folders of the Ethernet interfaces of *host* that are hardware, functions of others left out.

    Raises:
        NotApplicable: there is none.
        OSError: sysfs cannot list them.
    """
    found = [
        folder
        for folder in entries(host.sysfs / "class/net")
        if (folder / "device").exists()
        and not (folder / "device/physfn").exists()
        and number(folder / "type") == ETHERNET
    ]
    if not found:
        raise NotApplicable("there is no Ethernet interface of hardware")
    return found


def read(host: Host) -> Mapping[str, Link]:
    """Return the links of *host* by interface.

    Raises:
        NotApplicable: there is none.
        OSError: sysfs cannot list them.
        ValueError: an interface does not tell whether it is up.
    """
    found = {}
    for folder in hardware(host):
        flags = number(folder / "flags")
        if flags is None:
            raise ValueError(f"{folder} does not tell whether it is up")
        mbps = number(folder / "speed")
        found[folder.name] = Link(
            bool(flags & IFF_UP),
            number(folder / "carrier") == 1,
            number(folder / "carrier_changes") or 0,
            mbps if mbps is not None and mbps > 0 else None,
            text(folder / "duplex") or "",
            bool(number(folder / "statistics/rx_packets")),
        )
    return found


PROBE = Probe("links", read, every_s=30.0, keep_s=3600.0)
