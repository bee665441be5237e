"""Are the modes of each GPU as they should be, and does no change of them wait for a reset?

Without persistence mode the driver lets go of a GPU when nobody uses it: the next job waits seconds for it, and the
counters since driver load begin anew. A change of MIG or ECC mode that is pending comes into force with the next reset,
possibly in the middle of somebody's plans. Warnings, since nothing is broken.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from wheeltapper.checks.gpu.nvml import PROBE
from wheeltapper.checks.gpu.snapshot import Readings
from wheeltapper.checks.model import Check, Fault, Host
from wheeltapper.config import Section
from wheeltapper.evidence import Finding, Role

OFF = Fault("gpu_modes", "software/config", "a GPU's persistence mode is off", role=Role.CONFIRM)
PENDING = Fault("gpu_modes", "software/config", "a GPU's change of mode waits for a reset", role=Role.CONFIRM)


class Limits(Section):
    """Which modes a site wants."""

    persistence: bool = Field(True, description="Persistence mode must be on: NVIDIA's advice for servers.")


def judge(readings: Readings, host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each GPU with persistence mode off, or a change of mode that waits."""
    now = readings[-1]
    for gpu in now.value.having("persistence"):
        if limits.persistence and not gpu.persistence:
            text = f"Persistence mode of GPU {gpu.address} is off; run nvidia-persistenced"
            yield OFF.seen(host, now.at, text, detail="persistence=off", **gpu.named)
        for name, mode in (("MIG", gpu.mig), ("ECC", gpu.ecc_mode)):
            if mode is not None and mode.current != mode.pending:
                change = "on" if mode.pending else "off"
                text = f"{name} of GPU {gpu.address} will be {change} after the next reset"
                yield PENDING.seen(host, now.at, text, detail=f"{name.lower()}_pending={change}", **gpu.named)


CHECK = Check("gpu_modes", PROBE, judge, Limits)
