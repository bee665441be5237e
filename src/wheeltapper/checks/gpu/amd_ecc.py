"""Did an AMD GPU have memory errors that could not be corrected, since its driver was loaded?

An uncorrectable error convicts, as its line in the kernel log does: the node must be rebooted, since before ROCm 6.2.2
the state of a GPU after a reset for such an error is undefined. Deferred errors, whose data nobody has used yet, are a
warning. GPUs without RAS tell senseless counts, which are passed over.

Source: the RAS counters of the Linux kernel's amdgpu driver, by `amd-smi metric`.
"""

from __future__ import annotations

from collections.abc import Iterator

from wheeltapper.checks.gpu.amd import PROBE, Readings, having
from wheeltapper.checks.model import Check, Fault, Host, NoLimits
from wheeltapper.evidence import Disposition, Finding, Role

UNCORRECTABLE = Fault("amd_ecc", "hardware/ecc_uncorrectable", "uncorrectable errors of an AMD GPU", Disposition.REBOOT)
DEFERRED = Fault("amd_ecc", "hardware/ecc_uncorrectable", "deferred errors of an AMD GPU", role=Role.CONFIRM)

SENSELESS = 1_048_560
"""What a GPU without RAS answers, or a multiple of it."""


def judge(readings: Readings, host: Host, _limits: NoLimits) -> Iterator[Finding]:
    """Yield each GPU with such errors."""
    at = readings[-1].at
    for gpu in having(readings, "uncorrectable"):
        count, deferred = gpu.uncorrectable or 0, gpu.deferred or 0
        if count and count % SENSELESS:
            text = f"GPU {gpu.address} had {count} uncorrectable errors since its driver was loaded"
            yield UNCORRECTABLE.seen(host, at, text, detail=f"count={count}", **gpu.named)
        elif deferred and deferred % SENSELESS:
            text = f"GPU {gpu.address} had {deferred} deferred errors since its driver was loaded"
            yield DEFERRED.seen(host, at, text, detail=f"deferred={deferred}", **gpu.named)


CHECK = Check("amd_ecc", PROBE, judge)
