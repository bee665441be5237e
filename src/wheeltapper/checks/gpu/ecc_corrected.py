"""Does a GPU correct more and more memory errors?

A corrected error costs nothing; a memory that corrects ever more of them is worth a look at the next maintenance. A
warning, never a conviction: no vendor replaces a GPU for corrected errors.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from wheeltapper.checks.gpu.nvml import PROBE
from wheeltapper.checks.gpu.snapshot import Readings, before, growth
from wheeltapper.checks.model import Check, Fault, Host
from wheeltapper.config import Section
from wheeltapper.evidence import Finding, Role

TREND = Fault("gpu_ecc_corrected", "hardware/ecc_remap", "a GPU's memory corrects many errors", role=Role.CONFIRM)

HOUR_S = 3600.0


class Limits(Section):
    """From when on corrected errors are worth telling."""

    errors_max: int = Field(
        20_000_000,
        ge=0,
        description="Corrected errors since the driver was loaded (Azure's node checks; gcm waits for 50,000,000).",
    )
    errors_per_hour_max: int = Field(
        10_000,
        ge=0,
        description="Corrected errors in an hour. Ours: no public figure; Azure allows as many for the SRAM in all.",
    )
    span_min_s: float = Field(
        300.0, gt=0, strict=False, description="Seconds over which a rate is taken at least, lest a burst makes one."
    )


def judge(readings: Readings, host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each GPU whose count or rate is beyond its limit."""
    now = readings[-1]
    for gpu in now.value.having("ecc_corrected"):
        count = gpu.ecc_corrected or 0
        earlier = before(readings, gpu.address, PROBE.keep_s)
        span = now.at - earlier[0][0]
        grown = growth([each.ecc_corrected for _, each in earlier if each.ecc_corrected is not None])
        per_hour = grown * HOUR_S / span if span >= limits.span_min_s else 0.0
        if per_hour > limits.errors_per_hour_max:
            text = f"GPU {gpu.address} corrected {grown} memory errors in {span / 60:.0f} minutes"
            yield TREND.seen(host, now.at, text, detail=f"corrected_per_hour={per_hour:.0f}", **gpu.named)
        elif count > limits.errors_max:
            text = f"GPU {gpu.address} corrected {count} memory errors since the driver was loaded"
            yield TREND.seen(host, now.at, text, detail=f"corrected={count}", **gpu.named)


CHECK = Check("gpu_ecc_corrected", PROBE, judge, Limits)
