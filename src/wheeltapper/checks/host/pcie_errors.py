"""Does a PCIe device have errors at a rate that is out of the ordinary?

Errors that were corrected, or that spoiled one transaction and no more, are counted on many a healthy machine, some by
the thousand in an hour. A warning, never a conviction: beside a GPU that is slow, or lost later, it names the slot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from wheeltapper.checks.growth import grown
from wheeltapper.checks.host.aer import PROBE, Errors
from wheeltapper.checks.model import Check, Fault, Host, Reading
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

MANY = Fault("pcie_errors", "hardware/pcie", "a PCIe device has many errors")


class Limits(Section):
    """From when on PCIe errors are worth telling."""

    corrected_per_hour: int = Field(
        36_000,
        ge=0,
        description="Corrected errors of one device in an hour: ten a second. Healthy nodes reach some thousands.",
    )
    nonfatal_per_hour: int = Field(
        100,
        ge=0,
        description="Errors of one device in an hour that spoiled one transaction each. Ours: no public figure.",
    )


def judge(readings: Sequence[Reading[Mapping[str, Errors]]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each device that had too many errors of a kind in the last hour."""
    now = readings[-1]
    most = {"corrected": limits.corrected_per_hour, "nonfatal": limits.nonfatal_per_hour}
    for each in grown(readings, _counters, absent_is_zero=True):
        if each.hourly > most[each.name]:
            text = f"PCIe device {each.device} had {each.delta} {each.name} errors in {each.seconds / 60:.0f} minutes"
            detail = f"device={each.device} {each.name}=+{each.delta}"
            gpu = now.value[each.device].gpu if each.device in now.value else None
            yield MANY.seen(host, now.at, text, detail=detail, device=f"{each.device} {each.name}", gpu=gpu)


def _counters(value: Mapping[str, Errors]) -> Mapping[str, Mapping[str, int]]:
    return {name: {"corrected": each.corrected, "nonfatal": each.nonfatal} for name, each in value.items()}


CHECK = Check("pcie_errors", PROBE, judge, Limits)
