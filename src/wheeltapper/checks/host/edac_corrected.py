"""Does host memory correct more errors than a healthy module does?

A corrected error costs nothing, and some are normal; a module that corrects ever more is worth replacing at the next
maintenance. A warning, never a conviction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from wheeltapper.checks.growth import grown
from wheeltapper.checks.host.edac import PROBE, Controller
from wheeltapper.checks.model import Check, Fault, Host, Reading
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

MANY = Fault("edac_corrected", "hardware/host_memory", "host memory corrects many errors")


class Limits(Section):
    """From when on corrected errors are worth telling."""

    per_hour: int = Field(
        100,
        ge=0,
        description="Corrected errors of one memory controller in an hour. Ours, with no public figure: field studies "
        "see a healthy module correct a few in a year, and a failing one thousands in a day.",
    )


def judge(readings: Sequence[Reading[Mapping[str, Controller]]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each controller that corrected too many errors in the last hour."""
    now = readings[-1]
    for each in grown(readings, lambda value: {name: {"ce": told.corrected} for name, told in value.items()}):
        if each.hourly > limits.per_hour:
            modules = ", ".join(now.value[each.device].modules) if each.device in now.value else ""
            text = (
                f"memory controller {each.device} corrected {each.delta} errors in {each.seconds / 60:.0f} minutes"
                + (f": {modules}" if modules else "")
            )
            yield MANY.seen(host, now.at, text, detail=f"device={each.device} ce=+{each.delta}", device=each.device)


CHECK = Check("edac_corrected", PROBE, judge, Limits)
