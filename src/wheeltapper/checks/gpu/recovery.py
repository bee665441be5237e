"""Does the driver itself say that a GPU must be reset, or the node rebooted?

Two voices of the driver: NVML refuses calls with "reset required" (error 16), and from driver 570 on its field 230
holds the recovery action, the value that Xid 154 writes into the kernel log. They outrank every counter. "Drain peer to
peer" and "recover the IMEX domain" ask nothing of the GPU itself, and are warnings.

Source: NVML's error codes and field 230; the values are those of Xid 154 in NVIDIA's Xid catalogue.
"""

from __future__ import annotations

from collections.abc import Iterator

from wheeltapper.checks.gpu.nvml import PROBE
from wheeltapper.checks.gpu.snapshot import RESET_REQUIRED, Gpu, Readings
from wheeltapper.checks.model import Check, Fault, Host, NoLimits
from wheeltapper.evidence import Disposition, Finding
from wheeltapper.recovery import ACTIONS

RESET = Fault("gpu_recovery", "hardware/gpu_xid", "the driver asks for a reset of the GPU", Disposition.RESET_GPU)
REBOOT = Fault("gpu_recovery", "hardware/gpu_xid", "the driver asks for a reboot of the node", Disposition.REBOOT)
ADVICE = Fault("gpu_recovery", "hardware/gpu_xid", "the driver asks to recover the GPU's links or its IMEX domain")

FAULT_OF = {Disposition.RESET_GPU: RESET, Disposition.REBOOT: REBOOT}


def judge(readings: Readings, host: Host, _limits: NoLimits) -> Iterator[Finding]:
    """Yield each GPU that the driver wants recovered.

    Raises:
        NotApplicable, ValueError: no GPU tells its recovery action, and none demands a reset.
    """
    now = readings[-1]
    seen = now.value
    unopened = seen.unopened.count(RESET_REQUIRED)
    if unopened:
        text = f"NVML opens {unopened} of {len(seen.on_pci)} GPUs only after a reset"
        yield RESET.seen(host, now.at, text, detail=f"nvml=16 count={unopened}", gpu=seen.meant(unopened))
    demanded = unopened or any(each.fault == RESET_REQUIRED for each in seen.gpus)
    telling = seen.gpus if demanded else seen.having("recovery_action")
    for gpu in telling:
        action = gpu.recovery_action or 0
        if action:
            text = f"The driver's recovery action for GPU {gpu.address} is {action:#x}"
            yield _fault(gpu).seen(host, now.at, text, detail=f"recovery_action={action:#x}", **gpu.named)
        elif gpu.fault == RESET_REQUIRED:
            text = f"NVML answers for GPU {gpu.address} that a reset is required"
            yield RESET.seen(host, now.at, text, detail="nvml=16", **gpu.named)


def _fault(gpu: Gpu) -> Fault:
    asked = ACTIONS.get(gpu.recovery_action or 0, Disposition.NONE)
    return FAULT_OF.get(asked, RESET if gpu.fault == RESET_REQUIRED else ADVICE)


CHECK = Check("gpu_recovery", PROBE, judge)
