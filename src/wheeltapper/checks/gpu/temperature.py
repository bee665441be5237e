"""Is a GPU, or its memory, as hot as it may be?

Held against the GPU's own thresholds: newer drivers say how many degrees are left to the limit (T.Limit), older ones at
how many the clocks are lowered. A warning, since heat alone breaks nothing: whether it slows the GPU down, which
convicts when it lasts, is `gpu_throttle`'s to say.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from wheeltapper import gpu_state
from wheeltapper.checks.gpu.nvml import PROBE
from wheeltapper.checks.gpu.snapshot import Heat, Readings
from wheeltapper.checks.model import Check, Fault, Host
from wheeltapper.config import Section
from wheeltapper.evidence import Finding, Role

HOT = Fault("gpu_temperature", gpu_state.HOT.label, "a GPU is as hot as it may be", role=Role.CONFIRM)


class Limits(Section):
    """When a GPU counts as hot."""

    near_c: int = Field(
        gpu_state.NEAR_C, ge=0, description="Degrees Celsius below its own limit: a slowed GPU cools a little at once."
    )
    hot_c: int = Field(
        gpu_state.HOT_C,
        ge=0,
        description="Degrees Celsius, for a GPU that tells no limit: A100 and H100 slow down between 85 and 92.",
    )


def judge(readings: Readings, host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each GPU that is hot, with what is left to its limit."""
    now = readings[-1]
    for gpu in now.value.having("heat"):
        heat = gpu.heat
        if heat is None:
            continue
        if gpu_state.is_hot(
            heat.gpu_c, slowdown_at=heat.slowdown_at_c, left=heat.left_c, near=limits.near_c, hot=limits.hot_c
        ):
            text = f"GPU {gpu.address} is at {heat.gpu_c} degrees Celsius; {_limit(heat, limits)}"
            yield HOT.seen(host, now.at, text, detail=f"temperature={heat.gpu_c}C", **gpu.named)
        elif heat.memory_c is not None and heat.memory_max_c is not None and heat.memory_c >= heat.memory_max_c:
            text = (
                f"The memory of GPU {gpu.address} is at {heat.memory_c} degrees Celsius; it may be {heat.memory_max_c}"
            )
            yield HOT.seen(host, now.at, text, detail=f"memory_temperature={heat.memory_c}C", **gpu.named)


def _limit(heat: Heat, limits: Limits) -> str:
    if heat.left_c is not None:
        return f"{heat.left_c} are left until it slows down"
    at = limits.hot_c if heat.slowdown_at_c is None else heat.slowdown_at_c
    return f"it slows down at {at}"


CHECK = Check("gpu_temperature", PROBE, judge, Limits)
