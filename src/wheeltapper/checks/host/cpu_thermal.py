"""Are the processors slowed down by heat?

The kernel counts for how long each processor and each package was slowed down since boot. Moments are normal under
full load; a node that is slowed down for much of its time makes all ranks of a job wait for it. Look at its fans and at
the air that it gets; where a whole rack is hot, at the cooling.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import Field

from wheeltapper.checks.files import number
from wheeltapper.checks.growth import grown
from wheeltapper.checks.model import Check, Fault, Host, NotApplicable, Probe, Reading
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

SLOWED = Fault("cpu_thermal", "hardware/thermal", "heat slows the processors down")


SPAN_MIN_S = 300.0
"""Seconds over which a share of time is taken at least: a burst of load makes half a minute hot."""


@dataclass(frozen=True, slots=True)
class Throttle:
    """How often a processor's package was slowed down, and for how many milliseconds; None on older kernels."""

    count: int
    ms: int | None


class Limits(Section):
    """From when on heat is worth telling."""

    time_percent: float = Field(
        5.0,
        gt=0,
        le=100,
        strict=False,
        description="Percent of the last ten minutes. Ours, with no public figure: a rank that is 5 % slower is felt.",
    )
    per_hour: int = Field(
        3600, ge=1, description="Events in an hour, on kernels before 5.6 that count no time: one a second."
    )


def read(host: Host) -> Mapping[str, Throttle]:
    """Return the throttling of each package of *host*; processors of one package count the same.

    Raises:
        NotApplicable: this machine counts none.
        OSError: processors cannot be listed.
    """
    found: dict[str, Throttle] = {}
    for folder in (host.sysfs / "devices/system/cpu").iterdir():
        events = number(folder / "thermal_throttle/package_throttle_count")
        if events is None:
            continue
        package = f"package{number(folder / 'topology/physical_package_id') or 0}"
        known = found.get(package)
        if known is None or events > known.count:
            found[package] = Throttle(events, number(folder / "thermal_throttle/package_throttle_total_time_ms"))
    if not found:
        raise NotApplicable("this machine does not count by how much heat slows it down")
    return found


def judge(readings: Sequence[Reading[Mapping[str, Throttle]]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each package that was slowed down for too much of the time."""
    now = readings[-1]
    for each in grown(readings, _counters):
        if each.name == "ms":
            percent = each.delta / (10 * each.seconds)
            is_much = percent >= limits.time_percent and each.seconds >= SPAN_MIN_S
            text = f"heat slowed {each.device} down {percent:.0f} % of the last {each.seconds / 60:.0f} minutes"
        else:
            is_much = each.hourly > limits.per_hour
            text = f"heat slowed {each.device} down {each.delta} times in {each.seconds / 60:.0f} minutes"
        if is_much:
            yield SLOWED.seen(host, now.at, text, detail=f"device={each.device}", device=each.device)


def _counters(value: Mapping[str, Throttle]) -> Mapping[str, Mapping[str, int]]:
    return {
        package: {"ms": each.ms} if each.ms is not None else {"events": each.count} for package, each in value.items()
    }


PROBE = Probe("cpu_throttle", read, every_s=120.0, keep_s=600.0)
CHECK = Check("cpu_thermal", PROBE, judge, Limits)
