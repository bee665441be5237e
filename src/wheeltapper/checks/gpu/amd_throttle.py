"""Does heat keep the clocks of an AMD GPU down?

A warning while the GPU keeps a limit because of heat: of the processor, the socket, the voltage regulators or the HBM.
The power limit is reached at full load as it should be, and is not looked at. Instinct MI300 and later tell this.

Source: the violation states of `amd-smi metric`, from ROCm 6.3 on. No public figure says for how long is too long.
"""

from __future__ import annotations

from collections.abc import Iterator

from wheeltapper import gpu_state
from wheeltapper.checks.gpu.amd import PROBE, Readings, having
from wheeltapper.checks.model import Check, Fault, Host, NoLimits
from wheeltapper.evidence import Finding

HOT = Fault("amd_throttle", gpu_state.HOT.label, "heat slows an AMD GPU down")


def judge(readings: Readings, host: Host, _limits: NoLimits) -> Iterator[Finding]:
    """Yield each GPU that is slowed down."""
    for gpu in having(readings, "slowed_by"):
        if gpu.slowed_by:
            degrees = f" at {gpu.hotspot_c} degrees Celsius" if gpu.hotspot_c is not None else ""
            text = f"On GPU {gpu.address}{degrees} heat keeps the clocks down ({', '.join(gpu.slowed_by)})"
            yield HOT.seen(host, readings[-1].at, text, detail=f"reason={gpu.slowed_by[0]}", **gpu.named)


CHECK = Check("amd_throttle", PROBE, judge)
