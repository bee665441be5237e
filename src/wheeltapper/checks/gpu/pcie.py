"""Does the PCIe link of a GPU run with all its lanes and at its speed, and without too many replays?

A link that is narrower under load than this GPU could have in this slot convicts, while another GPU of the node has all
its lanes; on an idle GPU it is a warning. The generation is judged under load only: an idle link saves power at
generation 1. Replays are sent again by the link itself and cost only time; too many a minute are a warning.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from wheeltapper import gpu_state
from wheeltapper.checks.gpu.nvml import PROBE
from wheeltapper.checks.gpu.snapshot import Gpu, Pcie, Readings, before, growth
from wheeltapper.checks.model import Check, Fault, Host
from wheeltapper.config import Section
from wheeltapper.evidence import Finding, Role

NARROW = Fault("gpu_pcie", *gpu_state.NARROW)
NARROW_IDLE = Fault("gpu_pcie", NARROW.label, "the PCIe link of an idle GPU has fewer lanes than it could")
SLOW = Fault("gpu_pcie", *gpu_state.SLOW)
REPLAYS = Fault("gpu_pcie", NARROW.label, "the GPU's PCIe link sends much again", role=Role.CONFIRM)


class Limits(Section):
    """From when on a link counts as busy, and how many replays it may have."""

    busy_percent: int = Field(
        gpu_state.BUSY_PERCENT, ge=1, le=100, description="Utilisation from which a link shows what it can do."
    )
    replays_per_lane_per_minute: tuple[float, ...] = Field(
        (0.15, 0.3, 0.48, 0.96, 1.92, 3.84),
        strict=False,
        min_length=1,
        description="Replays for each lane in a minute, by generation 1 to 6 (NVIDIA DCGM: Gen5 with 16 lanes has 31).",
    )
    window_s: float = Field(
        600.0, gt=0, le=PROBE.keep_s, strict=False, description="Seconds over which replays are counted."
    )


def judge(readings: Readings, host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each GPU whose link is not as it could be."""
    now = readings[-1]
    gpus = now.value.having("pcie")
    wide = any(_is_wide(each) for each in gpus)
    fast = any(_is_fast(each) for each in gpus if _is_busy(each, limits))
    for gpu in gpus:
        link, busy = gpu.pcie, _is_busy(gpu, limits)
        if link is None:
            continue
        if wide and link.width < link.max_width:
            text = f"The PCIe link of GPU {gpu.address} has {link.width} of {link.max_width} lanes"
            fault = NARROW if busy else NARROW_IDLE
            yield fault.seen(host, now.at, text, detail=f"width={link.width}/{link.max_width}", **gpu.named)
        if fast and busy and link.generation < link.max_generation:
            text = f"The PCIe link of GPU {gpu.address} is at generation {link.generation} of {link.max_generation}"
            detail = f"generation={link.generation}/{link.max_generation}"
            yield SLOW.seen(host, now.at, f"{text}, under load", detail=detail, **gpu.named)
        rate = _replays_per_minute(before(readings, gpu.address, limits.window_s))
        if rate > _replays_max(link, limits):
            text = f"The PCIe link of GPU {gpu.address} sent again {rate:.1f} times a minute"
            yield REPLAYS.seen(host, now.at, text, detail=f"replays_per_minute={rate:.0f}", **gpu.named)


def _replays_per_minute(earlier: list[tuple[float, Gpu]]) -> float:
    counts = [(at, gpu.pcie.replays) for at, gpu in earlier if gpu.pcie is not None and gpu.pcie.replays is not None]
    if len(counts) < 2 or counts[-1][0] <= counts[0][0]:
        return 0.0
    return growth([each for _, each in counts]) * 60 / (counts[-1][0] - counts[0][0])


def _replays_max(link: Pcie, limits: Limits) -> float:
    by_generation = limits.replays_per_lane_per_minute
    return by_generation[min(max(link.max_generation, 1), len(by_generation)) - 1] * link.max_width


def _is_busy(gpu: Gpu, limits: Limits) -> bool:
    return gpu.use is not None and gpu.use.busy_percent >= limits.busy_percent


def _is_wide(gpu: Gpu) -> bool:
    return gpu.pcie is not None and gpu.pcie.width == gpu.pcie.max_width


def _is_fast(gpu: Gpu) -> bool:
    return gpu.pcie is not None and gpu.pcie.generation == gpu.pcie.max_generation


CHECK = Check("gpu_pcie", PROBE, judge, Limits)
