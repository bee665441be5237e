"""Has the SRAM of a GPU passed the threshold for uncorrectable errors that its own firmware holds?

The flag convicts: NVIDIA asks to take the GPU out, to run the field diagnostic, and to replace the GPU when that
agrees. Raw counts of SRAM errors are not judged.

Source: NVIDIA's guide to GPU memory errors; ``bThresholdExceeded`` of ``nvmlDeviceGetSramEccErrorStatus``, driver 535.
"""

from __future__ import annotations

from collections.abc import Iterator

from wheeltapper.checks.gpu.nvml import PROBE
from wheeltapper.checks.gpu.snapshot import Readings
from wheeltapper.checks.model import Check, Fault, Host, NoLimits
from wheeltapper.evidence import Disposition, Finding

EXCEEDED = Fault(
    "gpu_sram",
    "hardware/ecc_uncorrectable",
    "the SRAM has more uncorrectable errors than its firmware allows: run the field diagnostic",
    Disposition.INSPECT,
)


def judge(readings: Readings, host: Host, _limits: NoLimits) -> Iterator[Finding]:
    """Yield each GPU whose flag is set."""
    now = readings[-1]
    for gpu in now.value.having("sram_exceeded"):
        if gpu.sram_exceeded:
            text = f"The SRAM of GPU {gpu.address} has passed its error threshold"
            yield EXCEEDED.seen(host, now.at, text, detail="sram_threshold", **gpu.named)


CHECK = Check("gpu_sram", PROBE, judge)
