"""Does an InfiniBand or RoCE port gain errors faster than a good link does?

Only growth within the last hour counts: links train with errors, and old ones stay in a counter. The thresholds are
those that a diagnosis holds saved counters against; the adapter's own counters (`hw_counters`) have theirs here. A
warning, never a conviction: the other end of the cable may be the one that is bad.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from wheeltapper.checks.growth import Grown, grown
from wheeltapper.checks.model import Check, Fault, Host, Reading
from wheeltapper.checks.network.ports import COUNTERS, HW_HOURLY
from wheeltapper.config import Section
from wheeltapper.evidence import Finding
from wheeltapper.inputs.judging.counters import LINK_DOWN, WATCHED

ERRORS = Fault("ib_port_errors", "network/link_errors", "a port gains errors")
FLAPPED = Fault("ib_port_errors", LINK_DOWN.label, "a port's link went down")


class Limits(Section):
    """How many errors a link may have in an hour."""

    times: float = Field(
        1.0,
        gt=0,
        strict=False,
        description="Multiple of each counter's own threshold: any link_downed or local_link_integrity; 120 "
        "symbol_error an hour, the bit-error budget of InfiniBand; 300 link_error_recovery; 36,000 port_rcv_errors; "
        "3,600 local_ack_timeout_err; 36,000 roce_slow_restart (NVIDIA NVSentinel's rates).",
    )


def judge(
    readings: Sequence[Reading[Mapping[str, Mapping[str, int]]]], host: Host, limits: Limits
) -> Iterator[Finding]:
    """Yield each port's counters that grew too fast."""
    now = readings[-1]
    for each in grown(readings, lambda value: value):
        if each.hourly <= limits.times * _hourly(each.name):
            continue
        fault = FLAPPED if each.name == "link_downed" else ERRORS
        text = f"port {each.device} counted {each.delta} {each.name} in {each.seconds / 60:.0f} minutes"
        yield fault.seen(host, now.at, text, detail=_detail(each), device=f"{each.device} {each.name}")


def _hourly(name: str) -> float:
    watched = WATCHED.get(("port", name))
    return watched.hourly if watched else HW_HOURLY[name]


def _detail(each: Grown) -> str:
    return f"device={each.device} {each.name}=+{each.delta}"


CHECK = Check("ib_port_errors", COUNTERS, judge, Limits)
