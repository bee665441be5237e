"""Are the links of an AMD GPU well: XGMI to the other GPUs, and PCIe?

Warnings: XGMI errors since somebody last cleared them, a PCIe link that is narrower than those of the node's other
GPUs, and one that sends much again.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from wheeltapper import gpu_state
from wheeltapper.checks.gpu.amd import PROBE, Readings, having, per_minute
from wheeltapper.checks.model import Check, Fault, Host
from wheeltapper.config import Section
from wheeltapper.evidence import Finding, Role

XGMI = Fault("amd_link", gpu_state.NVLINK.label, "an XGMI link of an AMD GPU had errors", role=Role.CONFIRM)
NARROW = Fault(
    "amd_link", gpu_state.NARROW.label, "an AMD GPU's PCIe link has fewer lanes than others", role=Role.CONFIRM
)
REPLAYS = Fault("amd_link", gpu_state.NARROW.label, "an AMD GPU's PCIe link sends much again", role=Role.CONFIRM)

NO_ERRORS = "NO_ERRORS"


class Limits(Section):
    """How often a link may send again."""

    replays_per_minute_max: float = Field(
        31.0, ge=0, strict=False, description="Replays in a minute: DCGM's limit for 16 lanes of generation 5."
    )


def judge(readings: Readings, host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each GPU whose links are not well."""
    at = readings[-1].at
    gpus = having(readings, "pcie_width")
    widest = max(each.pcie_width or 0 for each in gpus)
    for gpu in gpus:
        if gpu.xgmi is not None and not gpu.xgmi.endswith(NO_ERRORS):
            text = f"amd-smi tells of errors on the XGMI links of GPU {gpu.address} ({gpu.xgmi})"
            yield XGMI.seen(host, at, text, detail="xgmi", **gpu.named)
        if gpu.pcie_width is not None and gpu.pcie_width < widest:
            text = f"The PCIe link of GPU {gpu.address} has {gpu.pcie_width} lanes; others here have {widest}"
            yield NARROW.seen(host, at, text, detail=f"width={gpu.pcie_width}/{widest}", **gpu.named)
        rate = per_minute(readings, gpu.address, "pcie_replays")
        if rate > limits.replays_per_minute_max:
            text = f"The PCIe link of GPU {gpu.address} sent again {rate:.1f} times a minute"
            yield REPLAYS.seen(host, at, text, detail=f"replays_per_minute={rate:.0f}", **gpu.named)


CHECK = Check("amd_link", PROBE, judge, Limits)
