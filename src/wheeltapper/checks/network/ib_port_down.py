"""Has an InfiniBand or RoCE port that was in use lost its link?

A port that carried data since the adapter started, was not switched off, and has had no link for 25 seconds convicts:
every job of several nodes needs it. Look at cable and transceiver, then at the switch's port; where all nodes of a leaf
lose a port at once it is the switch, and the budget keeps most of them in. Ports that never carried anything, as empty
cages do, and those that somebody has switched off are left out. A link that waits for its subnet manager (state INIT
or ARMED) is told as a warning.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pydantic import Field

from wheeltapper.checks.growth import spell
from wheeltapper.checks.model import Check, Fault, Host
from wheeltapper.checks.network.ports import PROBE, Ports, Readings
from wheeltapper.config import Section
from wheeltapper.evidence import Disposition, Finding

DOWN = Fault("ib_port_down", "hardware/nic", "a port that was in use has no link", Disposition.INSPECT)
WAITING = Fault("ib_port_down", "network/link_down", "a port has a link, and no subnet manager made it active")


class Limits(Section):
    """How long a port may be away."""

    down_s: float = Field(
        25.0, ge=0, strict=False, description="Seconds without a link: one that comes back earlier is a flap (gpud)."
    )
    waiting_s: float = Field(
        120.0,
        ge=0,
        strict=False,
        description="Seconds of waiting for a subnet manager: a sweep takes some seconds. Ours.",
    )


def judge(readings: Readings, host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each port that has lost its link, or waits for its subnet manager."""
    now = readings[-1]
    for name, port in now.value.items():
        detail = f"device={name}"
        if port.is_wanting:
            seconds = spell(readings, partial(_is_wanting, name))
            if seconds is not None and seconds >= limits.down_s:
                text = (
                    f"port {name} carried data, and has had no link for {limits.down_s:g} s or more "
                    f"(state {port.state}, physical state {port.phys_state})"
                )
                yield DOWN.seen(host, now.at, text, detail=detail, device=name)
        elif port.is_waiting:
            seconds = spell(readings, partial(_is_waiting, name))
            if seconds is not None and seconds >= limits.waiting_s:
                text = f"port {name} has a link, and has waited {seconds:.0f} s for its subnet manager"
                yield WAITING.seen(host, now.at, text, detail=detail, device=name)


def _is_wanting(name: str, ports: Ports) -> bool:
    return name in ports and ports[name].is_wanting


def _is_waiting(name: str, ports: Ports) -> bool:
    return name in ports and ports[name].is_waiting


CHECK = Check("ib_port_down", PROBE, judge, Limits)
