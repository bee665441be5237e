"""Has a GPU joined the NVSwitch fabric, and does it call its part of it healthy?

For a while after the boot a GPU is still joining, which is normal; for longer, Fabric Manager does not run or does not
finish, and CUDA says "system not yet initialized" (802). The health mask has fields of two bits in which "well" is not
zero: 1 says that a fault is there, 2 that it is not, 0 that the GPU does not tell.

All of this is a warning: what must be done about a GPU's links is told by the driver's recovery action, which
`gpu_recovery` reads.

Source: the fabric info of NVML (``nvmlDeviceGetGpuFabricInfoV``) and the masks in its header.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from wheeltapper.checks.gpu.nvml import PROBE
from wheeltapper.checks.gpu.snapshot import Fabric, Gpu, Readings, before
from wheeltapper.checks.model import Check, Fault, Host, NotApplicable
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

NOT_SUPPORTED, NOT_STARTED, JOINING, COMPLETED = range(4)
"""States of a GPU in its fabric."""

FAULTS = {
    0: "bandwidth is degraded",
    2: "a route is being recovered",
    4: "a route is unhealthy",
    6: "an access timed out",
}
"""What a two-bit field of the health mask, by its lowest bit, says when it is 1."""

CONFIGURATION_BIT, CONFIGURATION_MASK, CONFIGURATION_FINE = 8, 0xF, frozenset({0, 1})
CONFIGURATIONS = {
    2: "the system's GUID is wrong",
    3: "the chassis' serial number is wrong",
    4: "there is no partition",
    5: "NVLinks are missing",
    6: "the GPU's firmware does not fit",
    7: "the GPU is in a wrong place",
    8: "the GPU's state is invalid",
}
PARTITION_BIT, MANAGER_BIT = 12, 14
"""Two-bit fields in which 2 is bad: no partition assigned; the fabric's manager is not connected."""

OUTSIDE = Fault("gpu_fabric", "software/config", "a GPU has not joined the NVSwitch fabric: look at Fabric Manager")
UNHEALTHY = Fault("gpu_fabric", "hardware/nvlink", "a GPU calls its part of the NVSwitch fabric unhealthy")


class Limits(Section):
    """How long a GPU may take."""

    joining_max_s: float = Field(
        600.0,
        ge=0,
        le=PROBE.keep_s,
        strict=False,
        description="Seconds a GPU may be joining. Ours: minutes after a boot are normal.",
    )


def judge(readings: Readings, host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each GPU that is outside the fabric, or not well in it.

    Raises:
        NotApplicable, ValueError: no GPU here is made for such a fabric, or none tells.
    """
    now = readings[-1]
    members = [each for each in now.value.having("fabric") if each.fabric and each.fabric.state != NOT_SUPPORTED]
    if not members:
        raise NotApplicable("no GPU here is part of an NVSwitch fabric")
    for gpu in members:
        fabric = gpu.fabric
        if fabric is None:
            continue
        if fabric.state in {NOT_STARTED, JOINING}:
            waited_s = _waits_since(before(readings, gpu.address, limits.joining_max_s))
            # A reading may come a period late: nine tenths of the time count as all of it.
            if waited_s >= 0.9 * limits.joining_max_s:
                text = f"GPU {gpu.address} has not joined the NVSwitch fabric for {waited_s / 60:.0f} minutes"
                yield OUTSIDE.seen(host, now.at, text, detail=f"fabric_state={fabric.state}", **gpu.named)
            continue
        wrong = wrongs(fabric)
        if wrong:
            text = f"In the NVSwitch fabric of GPU {gpu.address} {', '.join(wrong)}"
            detail = f"fabric_status={fabric.status} health={fabric.health:#x}"
            yield UNHEALTHY.seen(host, now.at, text, detail=detail, **gpu.named)


def _waits_since(earlier: list[tuple[float, Gpu]]) -> float:
    """Return for how many seconds the GPU has been outside without a break."""
    joined = [at for at, gpu in earlier if gpu.fabric is not None and gpu.fabric.state == COMPLETED]
    outside = [at for at, _ in earlier if not joined or at > joined[-1]]
    return outside[-1] - outside[0]


def wrongs(fabric: Fabric) -> list[str]:
    """Return what is wrong in *fabric*, which is complete, in words; nothing for a healthy one, whose mask is not 0."""
    found = [] if fabric.status == 0 else [f"joining ended with NVML error {fabric.status}"]
    found += [said for bit, said in FAULTS.items() if fabric.health >> bit & 0b11 == 1]
    configuration = fabric.health >> CONFIGURATION_BIT & CONFIGURATION_MASK
    if configuration not in CONFIGURATION_FINE:
        found.append(CONFIGURATIONS.get(configuration, f"the configuration is wrong ({configuration})"))
    if fabric.health >> PARTITION_BIT & 0b11 == 2:
        found.append("no partition is assigned")
    if fabric.health >> MANAGER_BIT & 0b11 == 2:
        found.append("the fabric's manager is not connected")
    return found


CHECK = Check("gpu_fabric", PROBE, judge, Limits)
