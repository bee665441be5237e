"""Does one port gain errors while those beside it gain none?

Beneath the rates that count as a bad link, one rail of several that has ten times the errors of its sisters is the one
whose cable will be next. Ports of one node are held against each other over the last hour. A warning, never a
conviction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from wheeltapper.checks.growth import grown
from wheeltapper.checks.model import Check, Fault, Host, Reading
from wheeltapper.checks.network.ib_rails import RAILS_MIN
from wheeltapper.checks.network.ports import COUNTERS
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

WORSE = Fault("ib_rail_errors", "network/link_errors", "one rail has more errors than the others")

COMPARED = frozenset({"symbol_error", "link_error_recovery", "port_rcv_errors"})


class Limits(Section):
    """When a rail stands out."""

    times: float = Field(
        10.0, gt=1, strict=False, description="Multiple of the errors that the middle one of the ports has. Ours."
    )
    errors_min: int = Field(
        60,
        ge=1,
        description="Errors in an hour below which nothing is compared: half of InfiniBand's bit-error budget.",
    )


def judge(
    readings: Sequence[Reading[Mapping[str, Mapping[str, int]]]], host: Host, limits: Limits
) -> Iterator[Finding]:
    """Yield each port that has far more errors than the middle one of the node's ports."""
    now = readings[-1]
    errors = dict.fromkeys(now.value, 0)
    for each in grown(readings, lambda value: value):
        if each.name in COMPARED and each.device in errors:
            errors[each.device] += each.delta
    if len(errors) < RAILS_MIN:
        return
    usual = sorted(errors.values())[len(errors) // 2]
    for name, count in errors.items():
        if count >= limits.errors_min and count > limits.times * usual:
            text = f"port {name} had {count} errors within the hour, and the node's middle one {usual}"
            yield WORSE.seen(host, now.at, text, detail=f"device={name} errors=+{count}", device=name)


CHECK = Check("ib_rail_errors", COUNTERS, judge, Limits)
