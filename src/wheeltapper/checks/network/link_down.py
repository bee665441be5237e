"""Has an Ethernet interface lost its carrier, or does it come and go?

Told of interfaces that are switched on and have received packets since the driver was loaded: a cage that is empty
never does. A warning, never a conviction, since the node may have others; a port for RDMA is looked at more strictly by
`ib_port_down`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from pydantic import Field

from wheeltapper.checks.growth import grown, spell
from wheeltapper.checks.model import Check, Fault, Host, Reading
from wheeltapper.checks.network.links import PROBE, Link
from wheeltapper.config import Section
from wheeltapper.evidence import Finding
from wheeltapper.inputs.judging.counters import WATCHED

DOWN = Fault("link_down", "network/link_down", "an interface that was in use has no carrier")
FLAPS = Fault("link_down", "network/link_down", "an interface's carrier comes and goes")


class Limits(Section):
    """When a link counts as lost or restless."""

    down_s: float = Field(
        25.0, ge=0, strict=False, description="Seconds without a carrier: one that comes back earlier is a flap (gpud)."
    )
    changes_per_hour: float = Field(
        WATCHED["nic", "carrier_changes"].hourly,
        ge=0,
        strict=False,
        description="Changes of the carrier in an hour; down and up are two (NVIDIA NVSentinel warns above 2).",
    )


def judge(readings: Sequence[Reading[Mapping[str, Link]]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each interface whose carrier is lost or restless."""
    now = readings[-1]
    for name in now.value:
        seconds = spell(readings, partial(_is_lost, name))
        if seconds is not None and seconds >= limits.down_s:
            text = f"interface {name} was in use, and has had no carrier for {seconds:.0f} s"
            yield DOWN.seen(host, now.at, text, detail=f"device={name}", device=name)
    for each in grown(readings, _changes):
        if each.hourly > limits.changes_per_hour:
            text = (
                f"the carrier of interface {each.device} changed {each.delta} times in {each.seconds / 60:.0f} minutes"
            )
            detail = f"device={each.device} changes=+{each.delta}"
            yield FLAPS.seen(host, now.at, text, detail=detail, device=f"{each.device} flaps")


def _is_lost(name: str, links: Mapping[str, Link]) -> bool:
    link = links.get(name)
    return link is not None and link.is_up and link.carried and not link.has_carrier


def _changes(links: Mapping[str, Link]) -> Mapping[str, Mapping[str, int]]:
    return {name: {"changes": link.carrier_changes} for name, link in links.items()}


CHECK = Check("link_down", PROBE, judge, Limits)
