"""The ports of InfiniBand and RoCE adapters: their state, and the counters that speak of a bad link."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wheeltapper.checks.files import entries, number, text
from wheeltapper.checks.model import Host, NotApplicable, Probe, Reading
from wheeltapper.inputs.judging.counters import WATCHED

ACTIVE, LINK_UP = 4, 5
"""Logical and physical state of a port that works (InfiniBand Architecture; the numbers are sysfs's own)."""

DISABLED = 3
"""The physical state of a port that somebody has switched off."""

IFF_UP = 0x1

HW_HOURLY: Mapping[str, int] = {"local_ack_timeout_err": 3_600, "roce_slow_restart": 36_000}
"""Events in an hour from which counters of the adapter itself speak: one, and ten, a second (NVIDIA NVSentinel)."""

_RATE = re.compile(r"^([\d.]+) Gb/sec")


@dataclass(frozen=True, slots=True)
class Port:
    """A port as ``device/number``; ``gbps`` is its rate, ``kind`` the adapter's model.

    ``carried`` says that packets came in or went out through it, and ``is_off`` that somebody has switched it off.
    """

    name: str
    state: int
    phys_state: int
    gbps: float
    kind: str
    carried: bool
    is_off: bool

    @property
    def is_active(self) -> bool:
        """True for a port that can carry data."""
        return self.state == ACTIVE

    @property
    def is_wanting(self) -> bool:
        """True for a port that carried data, was not switched off, and has no link."""
        return not self.is_active and self.phys_state != LINK_UP and self.carried and not self.is_off

    @property
    def is_waiting(self) -> bool:
        """True for a port that has a link and was not made active yet: its subnet manager does that."""
        return self.phys_state == LINK_UP and not self.is_active


Ports = Mapping[str, Port]
Readings = Sequence[Reading[Ports]]


def read(host: Host) -> Ports:
    """Return the ports of *host* by name.

    Raises:
        NotApplicable: it has none.
        OSError: sysfs cannot list them.
        ValueError: a port does not tell its state.
    """
    found = {}
    for name, folder in _folders(host):
        state, phys_state = _first_number(folder / "state"), _first_number(folder / "phys_state")
        if state is None or phys_state is None:
            raise ValueError(f"{folder} does not tell its state")
        rate = _RATE.match(text(folder / "rate") or "")
        device = folder.parent.parent
        found[name] = Port(
            name,
            state,
            phys_state,
            float(rate[1]) if rate else 0.0,
            text(device / "board_id") or text(device / "hca_type") or "",
            any(number(folder / "counters" / each) for each in ("port_rcv_packets", "port_xmit_packets")),
            _is_off(folder, phys_state),
        )
    return found


def _folders(host: Host) -> Iterator[tuple[str, Path]]:
    devices = entries(host.sysfs / "class/infiniband")
    if not devices:
        raise NotApplicable("there is no InfiniBand or RoCE adapter")
    for device in devices:
        # A function that was handed to a virtual machine shows the port of its parent.
        if not (device / "device/physfn").exists():
            for port in entries(device / "ports"):
                yield f"{device.name}/{port.name}", port


def _first_number(path: Path) -> int | None:
    """Return the number in a line such as ``4: ACTIVE``."""
    first = (text(path) or "").partition(":")[0]
    return int(first) if first.isdigit() else None


def _is_off(port: Path, phys_state: int) -> bool:
    """Return whether somebody has switched *port* off: on Ethernet its network interface tells."""
    if text(port / "link_layer") != "Ethernet":
        return phys_state == DISABLED
    flags = [number(interface / "flags") or 0 for interface in entries(port.parent.parent / "device/net")]
    return not any(each & IFF_UP for each in flags)


def read_counters(host: Host) -> Mapping[str, Mapping[str, int]]:
    """Return the counters of *host*'s ports that speak of a bad link, by port and name.

    Raises:
        NotApplicable: it has no ports.
        OSError: sysfs cannot list them.
        ValueError: a port counts nothing.
    """
    found = {}
    for name, folder in _folders(host):
        told = {
            counter: value
            for kind, counter in WATCHED
            if kind == "port" and (value := number(folder / "counters" / counter)) is not None
        }
        if not told:
            raise ValueError(f"{folder} counts nothing")
        own = folder / "hw_counters"
        more = {counter: value for counter in HW_HOURLY if (value := number(own / counter)) is not None}
        found[name] = {**told, **more}
    return found


# A port that is down for 25 seconds is lost: three looks.
PROBE = Probe("ib_ports", read, every_s=10.0, keep_s=300.0)
COUNTERS = Probe("ib_counters", read_counters, keep_s=3600.0)
