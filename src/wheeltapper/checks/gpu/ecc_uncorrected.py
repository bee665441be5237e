"""Did a GPU have uncorrectable memory errors since the driver was loaded?

A warning, never a conviction: the volatile count does not say whether an error was contained, in which case the
application died and the GPU is sound. What must be done is told by the driver's recovery action, the remapped rows and
the SRAM's threshold, each with a check of its own. The lifetime count is not read: a GPU would never be well again.

Source: NVIDIA's guide to GPU memory errors, which decides by these flags and not by counts.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from wheeltapper import gpu_state
from wheeltapper.checks.gpu.nvml import PROBE
from wheeltapper.checks.gpu.snapshot import Readings, before, growth
from wheeltapper.checks.model import Check, Fault, Host
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

ERRORS = Fault("gpu_ecc_uncorrected", *gpu_state.UNCORRECTED)


class Limits(Section):
    """When errors are told."""

    errors_max: int = Field(0, ge=0, description="Errors since driver load that are let pass: none (facebook's gcm).")


def judge(readings: Readings, host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each GPU with more errors than the limit; the text says whether they grow."""
    now = readings[-1]
    for gpu in now.value.having("ecc_uncorrected"):
        count = gpu.ecc_uncorrected or 0
        if count <= limits.errors_max:
            continue
        earlier = before(readings, gpu.address, PROBE.keep_s)
        grown = growth([each.ecc_uncorrected for _, each in earlier if each.ecc_uncorrected is not None])
        minutes = (now.at - earlier[0][0]) / 60
        text = f"GPU {gpu.address} had {count} uncorrectable memory errors since the driver was loaded" + (
            f", {grown} of them in the last {minutes:.0f} minutes" if grown else ""
        )
        yield ERRORS.seen(host, now.at, text, detail=f"count={count}", **gpu.named)


CHECK = Check("gpu_ecc_uncorrected", PROBE, judge, Limits)
