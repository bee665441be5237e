"""Does NVML still reach every NVIDIA GPU that PCI shows?

A GPU that NVML calls lost (error 15) is out of the driver's reach until the node has rebooted, which convicts. NVML may
also drop it from its list without a word, so that the indices of the others shift: that convicts when the device files
say that this process may open all of them; in a container that is given only some GPUs it is a warning.

Source: NVML's error codes; the GPU's address comes from PCI and from the GPUs that did answer, never from an index.
"""

from __future__ import annotations

from collections.abc import Iterator

from wheeltapper import gpu_state
from wheeltapper.checks.gpu.nvml import PROBE
from wheeltapper.checks.gpu.snapshot import IS_LOST, Readings, Snapshot
from wheeltapper.checks.model import Check, Fault, Host, NoLimits
from wheeltapper.evidence import Disposition, Finding, Role

LOST = Fault("gpu_lost", *gpu_state.LOST)
UNSEEN = Fault("gpu_lost", "hardware/gpu_lost", "the driver no longer shows a GPU that PCI shows", Disposition.REBOOT)
HIDDEN = Fault("gpu_lost", "hardware/gpu_lost", "the driver shows fewer GPUs than PCI does", role=Role.CONFIRM)


def judge(readings: Readings, host: Host, _limits: NoLimits) -> Iterator[Finding]:
    """Yield each GPU that is lost.

    Raises:
        ValueError: the driver serves nobody.
    """
    now = readings[-1]
    seen = now.value
    if seen.refused is not None:
        raise ValueError(f"NVML serves nobody (error {seen.refused})")
    for gpu in seen.gpus:
        if gpu.fault == IS_LOST:
            yield LOST.seen(host, now.at, f"NVML has lost GPU {gpu.address}", detail="nvml=15", **gpu.named)
    missing = seen.unanswered
    lost = seen.unopened.count(IS_LOST)
    if lost:
        text = f"NVML has lost {lost} of {len(seen.on_pci)} GPUs{_named(missing)}"
        yield LOST.seen(host, now.at, text, detail=f"nvml=15 count={lost}", gpu=seen.meant(lost))
    elif missing:
        fault = UNSEEN if _may_open_all(seen) else HIDDEN
        codes = f" (NVML error {', '.join(map(str, seen.unopened))})" if seen.unopened else ""
        text = f"NVML shows {len(seen.gpus)} of {len(seen.on_pci)} GPUs{_named(missing)}{codes}"
        detail = f"expected={len(seen.on_pci)} found={len(seen.gpus)}"
        yield fault.seen(host, now.at, text, detail=detail, gpu=seen.meant(len(missing)))


def _may_open_all(seen: Snapshot) -> bool:
    """True when a GPU is missing from NVML although nothing keeps this process from it."""
    return bool(seen.gpus) and not seen.unopened and seen.device_files >= len(seen.on_pci)


def _named(missing: tuple[str, ...]) -> str:
    return f"; without an answer: {', '.join(missing)}" if missing else ""


CHECK = Check("gpu_lost", PROBE, judge)
