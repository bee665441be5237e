"""Are as many InfiniBand or RoCE ports active, and as fast, as the site says?

The site sets the number of ports and their rate; without, nothing is checked. A node with fewer active ports for
25 seconds convicts: an adapter that is gone altogether has no state that could tell. A port that is slower than it
should be is told as a warning, since a transceiver or the switch's own setting may make it so.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from wheeltapper.checks.growth import spell
from wheeltapper.checks.model import Check, Fault, Host
from wheeltapper.checks.network.ports import PROBE, Ports, Readings
from wheeltapper.config import Section
from wheeltapper.evidence import Disposition, Finding

MISSING = Fault(
    "ib_ports_expected", "hardware/nic", "fewer ports are active than the node should have", Disposition.INSPECT
)
SLOW = Fault("ib_ports_expected", "hardware/nic", "a port is slower than it should be")


class Limits(Section):
    """What the node should have."""

    ports: int | None = Field(None, ge=0, description="Active ports, of InfiniBand and RoCE together.")
    gbps: float | None = Field(None, gt=0, strict=False, description="Rate of each active port in Gbit/s, such as 400.")
    down_s: float = Field(
        25.0, ge=0, strict=False, description="Seconds with fewer: a port that comes back earlier is a flap (gpud)."
    )


def judge(readings: Readings, host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield a finding for too few ports, and one for each that is too slow."""
    now = readings[-1]
    expected = limits.ports
    if expected is not None:
        seconds = spell(readings, lambda value: _active(value) < expected)
        if seconds is not None and seconds >= limits.down_s:
            found = _active(now.value)
            away = ", ".join(name for name, port in now.value.items() if not port.is_active) or "none is shown as down"
            text = f"{found} of {expected} InfiniBand or RoCE ports are active ({away})"
            yield MISSING.seen(host, now.at, text, detail=f"expected={expected} active={found}")
    for name, port in now.value.items():
        if limits.gbps is not None and port.is_active and port.gbps < limits.gbps:
            text = f"port {name} runs at {port.gbps:g} Gbit/s, and should at {limits.gbps:g}"
            yield SLOW.seen(host, now.at, text, detail=f"device={name} gbps={port.gbps:g}", device=name)


def _active(ports: Ports) -> int:
    return sum(port.is_active for port in ports.values())


CHECK = Check("ib_ports_expected", PROBE, judge, Limits)
