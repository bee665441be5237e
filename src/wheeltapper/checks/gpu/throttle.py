"""Do heat or the power brake keep a GPU's clocks down?

Judged by the clock event reasons that the hardware sets: thermal slowdown (0x40), power brake (0x80), and a slowdown
without a named cause (0x8). Once seen, it is a warning; what is seen in six of ten minutes convicts, a brake only where
the clock really is low. What is normal is not looked at: idle (0x1), application clocks (0x2), the software's power cap
(0x4, usual at full load), sync boost (0x10).

Source: NVML's clock event reasons; gpud's rate of 0.6 a minute over ten minutes.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from wheeltapper import gpu_state
from wheeltapper.checks.gpu.nvml import PROBE
from wheeltapper.checks.gpu.snapshot import Clocks, Gpu, Readings, before
from wheeltapper.checks.model import Check, Fault, Host
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

SLOWDOWN = 0x8
THERMAL = 0x40
BRAKE = 0x80

HOT = Fault("gpu_throttle", *gpu_state.HOT)
WARM = Fault("gpu_throttle", gpu_state.WARM.label, "a thermal slowdown is active")
BRAKED = Fault("gpu_throttle", *gpu_state.BRAKED)
HELD = Fault("gpu_throttle", gpu_state.BRAKE.label, "the power brake or another hardware slowdown is active")


class Limits(Section):
    """When a slowdown has lasted."""

    window_s: float = Field(
        600.0, gt=0, le=PROBE.keep_s, strict=False, description="Seconds that are looked back over (gpud: 10 minutes)."
    )
    share_min: float = Field(
        0.6,
        gt=0,
        le=1,
        strict=False,
        description="Share of the readings in it that must be slowed (gpud: 0.6 a minute).",
    )


def judge(readings: Readings, host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each GPU that the hardware slows down now."""
    now = readings[-1]
    for gpu in now.value.having("clocks"):
        clocks = gpu.clocks
        if clocks is None:
            continue
        earlier = before(readings, gpu.address, limits.window_s)
        if clocks.reasons & THERMAL:
            fault = HOT if _lasts(earlier, THERMAL, limits) else WARM
            yield fault.seen(host, now.at, _text(gpu, clocks, "heat"), detail="reason=hw_thermal", **gpu.named)
        if clocks.reasons & BRAKE:
            fault = BRAKED if _lasts(earlier, BRAKE, limits) and _is_slow(clocks) else HELD
            text = _text(gpu, clocks, "the power brake")
            yield fault.seen(host, now.at, text, detail="reason=hw_power_brake", **gpu.named)
        if clocks.reasons & SLOWDOWN and not clocks.reasons & (THERMAL | BRAKE):
            text = _text(gpu, clocks, "the hardware, without a named cause,")
            fault = BRAKED if _lasts(earlier, SLOWDOWN, limits) and _is_slow(clocks) else HELD
            yield fault.seen(host, now.at, text, detail="reason=hw_slowdown", **gpu.named)


def _lasts(earlier: list[tuple[float, Gpu]], reason: int, limits: Limits) -> bool:
    """True when *reason* held for the share of the window, and the readings cover it."""
    # A reading may come a period late: nine tenths of the window count as all of it.
    if earlier[-1][0] - earlier[0][0] < 0.9 * limits.window_s:
        return False
    held = [bool(gpu.clocks.reasons & reason) for _, gpu in earlier if gpu.clocks is not None]
    return sum(held) >= limits.share_min * len(held)


def _is_slow(clocks: Clocks) -> bool:
    return gpu_state.is_slow(clocks.sm_mhz, clocks.sm_max_mhz)


def _text(gpu: Gpu, clocks: Clocks, cause: str) -> str:
    degrees = f" at {gpu.heat.gpu_c} degrees Celsius" if gpu.heat is not None else ""
    speed = f", to {clocks.sm_mhz} of {clocks.sm_max_mhz} MHz" if clocks.sm_mhz and clocks.sm_max_mhz else ""
    return f"On GPU {gpu.address}{degrees} {cause} keeps the clocks down{speed}"


CHECK = Check("gpu_throttle", PROBE, judge, Limits)
