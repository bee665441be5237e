"""Does an Ethernet adapter gain errors faster than a good link does?

What the driver counts, as `ethtool -S` shows it, and what the kernel counts of every interface. Only growth within the
last hour counts, with the thresholds that a diagnosis holds saved counters against. A warning, never a conviction: the
other end of the cable may be the one that is bad.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import Field

from wheeltapper.checks import calls
from wheeltapper.checks.files import number
from wheeltapper.checks.growth import Grown, grown
from wheeltapper.checks.model import Check, Fault, Host, Probe, Reading
from wheeltapper.checks.network import links
from wheeltapper.config import Section
from wheeltapper.evidence import Finding
from wheeltapper.inputs.judging.counters import LINK_DOWN, WATCHED

ERRORS = Fault("nic_errors", "network/link_errors", "an interface gains errors")
DOWN = Fault("nic_errors", LINK_DOWN.label, "an adapter's link or its module failed")

KERNEL = ("rx_packets", "tx_packets", "rx_errors", "tx_errors")

Counters = Mapping[str, Mapping[str, int]]


class Limits(Section):
    """How many errors a link may have in an hour."""

    times: float = Field(
        1.0,
        gt=0,
        strict=False,
        description="Multiple of each counter's own threshold: 120 CRC or symbol errors an hour, the bit-error budget "
        "of InfiniBand; any link_down_events_phy, module_bus_stuck or module_bad_shorted.",
    )
    error_percent: float = Field(
        1.0,
        gt=0,
        le=100,
        strict=False,
        description="Percent of an hour's packets that were errors, for any adapter (node_exporter's rules).",
    )
    packets_min: int = Field(100_000, ge=1, description="Packets below which no percentage is taken. Ours.")


def read(host: Host) -> Counters:
    """Return what adapters and kernel count of *host*'s interfaces.

    Raises:
        NotApplicable: there is no interface of hardware.
        OSError: sysfs cannot list them.
        ValueError: an interface counts nothing.
    """
    return {folder.name: _of(folder) for folder in links.hardware(host)}


def _of(folder: Path) -> Mapping[str, int]:
    found = {name: value for name in KERNEL if (value := number(folder / "statistics" / name)) is not None}
    if not found:
        raise ValueError(f"{folder} counts nothing")
    try:
        told = calls.nic_statistics(folder.name)
    except OSError:
        return found  # a driver that has no counters of its own
    watched = {name: value for name, value in told.items() if ("nic", name) in WATCHED}
    return {**found, **watched}


def judge(readings: Sequence[Reading[Counters]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each counter that grew too fast."""
    now = readings[-1]
    every = list(grown(readings, lambda value: value))
    packets = {each.device: 0 for each in every}
    for each in every:
        packets[each.device] += each.delta if each.name.endswith("_packets") else 0
    for each in every:
        if not _is_much(each, packets[each.device], limits):
            continue
        watched = WATCHED.get(("nic", each.name))
        fault = DOWN if watched and watched.rule == LINK_DOWN else ERRORS
        text = f"interface {each.device} counted {each.delta} {each.name} in {each.seconds / 60:.0f} minutes"
        detail = f"device={each.device} {each.name}=+{each.delta}"
        yield fault.seen(host, now.at, text, detail=detail, device=f"{each.device} {each.name}")


def _is_much(each: Grown, packets: int, limits: Limits) -> bool:
    if each.name in {"rx_errors", "tx_errors"}:
        return packets >= limits.packets_min and 100 * each.delta > limits.error_percent * packets
    watched = WATCHED.get(("nic", each.name))
    return watched is not None and each.hourly > limits.times * watched.hourly


PROBE = Probe("nic_counters", read, may_hang=True, keep_s=3600.0)
CHECK = Check("nic_errors", PROBE, judge, Limits)
