"""Is an Ethernet link as fast as it should be?

A link that runs half duplex was set up wrong, whatever its speed. How fast each interface should be, the site says;
ports of one adapter are often wired to different networks, so they are not held against each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from wheeltapper.checks.model import Check, Fault, Host, Reading
from wheeltapper.checks.network.links import PROBE, Link
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

HALF = Fault("link_speed", "hardware/nic", "a link runs half duplex")
SLOW = Fault("link_speed", "hardware/nic", "a link is slower than it should be")


class Limits(Section):
    """How fast links should be."""

    mbps: dict[str, int] = Field({}, description='Mbit/s by interface, such as { eth0 = 100000 }; "*" stands for all.')


def judge(readings: Sequence[Reading[Mapping[str, Link]]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each link with a carrier that is half duplex or too slow."""
    now = readings[-1]
    for name, link in now.value.items():
        if not (link.is_up and link.has_carrier):
            continue
        wanted = limits.mbps.get(name, limits.mbps.get("*"))
        if wanted is not None and link.mbps is not None and link.mbps < wanted:
            text = f"interface {name} runs at {link.mbps} Mbit/s, and should at {wanted}"
            yield SLOW.seen(host, now.at, text, detail=f"device={name} mbps={link.mbps}", device=name)
        elif link.duplex == "half":
            yield HALF.seen(host, now.at, f"interface {name} runs half duplex", detail=f"device={name}", device=name)


CHECK = Check("link_speed", PROBE, judge, Limits)
