"""Does the NVIDIA driver serve, and does its library fit the module that the kernel has loaded?

After an upgrade without a reboot the library and the module differ, and every CUDA program fails (803). Without the
module nothing works at all. A warning, since software never takes a node out: reload the module, or reboot.

Source: NVML's error codes 9 and 18.
"""

from __future__ import annotations

from collections.abc import Iterator

from wheeltapper.checks.gpu.nvml import PROBE
from wheeltapper.checks.gpu.snapshot import VERSION_MISMATCH, Readings
from wheeltapper.checks.model import Check, Fault, Host, NoLimits
from wheeltapper.evidence import Finding

MISMATCH = Fault("gpu_driver", "software/env_mismatch", "NVIDIA's library and kernel module are of different versions")
NOT_LOADED = Fault("gpu_driver", "software/env_mismatch", "NVIDIA's kernel module is not loaded")


def judge(readings: Readings, host: Host, _limits: NoLimits) -> Iterator[Finding]:
    """Yield a finding when the driver serves nobody."""
    now = readings[-1]
    code = now.value.refused
    if code == VERSION_MISMATCH:
        text = "NVML's library does not fit the loaded kernel module: reload the module, or reboot"
        yield MISMATCH.seen(host, now.at, text, detail=f"nvml={code}")
    elif code is not None:
        text = f"NVML finds no loaded kernel module, and PCI shows {len(now.value.on_pci)} NVIDIA GPUs: load it"
        yield NOT_LOADED.seen(host, now.at, text, detail=f"nvml={code}")


CHECK = Check("gpu_driver", PROBE, judge)
