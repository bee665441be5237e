"""The probe of NVIDIA's GPUs: one read of all of them through NVML, for every check that judges them.

NVML calls can hang for ever (a GPU that fell off the bus, a firmware that does not answer), so the probe is read in a
child process with a deadline. NVML is initialised and shut down in every read: a handle that is held open keeps a GPU
from being reset, and the driver's module from being reloaded. Only calls that are cheap: none that wakes a GPU up to
measure, and no registration for events.
"""

from __future__ import annotations

import contextlib
import re
from typing import Any

from wheeltapper.checks.gpu.nvml_calls import read_gpu
from wheeltapper.checks.gpu.pci_gpus import NVIDIA, gpus_on_pci
from wheeltapper.checks.gpu.snapshot import DRIVER_NOT_LOADED, VERSION_MISMATCH, Gpu, Snapshot
from wheeltapper.checks.model import Host, NotApplicable, Probe

REFUSALS = frozenset({DRIVER_NOT_LOADED, VERSION_MISMATCH})
_DEVICE_FILE = re.compile(r"nvidia\d+")


def read(host: Host) -> Snapshot:
    """Return what NVML tells.

    Raises:
        NotApplicable: none is expected (``node.expected_gpus``), and PCI shows no NVIDIA GPU or NVML is not there.
        OSError: sysfs cannot be read, or NVML does not answer as it should.
    """
    on_pci = gpus_on_pci(host.sysfs, NVIDIA)
    if not on_pci and not host.expected.expected_gpus:
        raise NotApplicable("PCI shows no NVIDIA GPU")
    import pynvml as nvml  # noqa: PLC0415 - only nodes with such a GPU pay for it, and only in the child

    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        if error.value in REFUSALS:
            return Snapshot(on_pci, refused=error.value)
        if error.value == nvml.NVML_ERROR_LIBRARY_NOT_FOUND and not host.expected.expected_gpus:
            raise NotApplicable("NVML is not installed, and no GPU is expected") from error
        raise OSError(f"NVML does not start: {error}") from error
    try:
        return _read_all(nvml, host, on_pci)
    except nvml.NVMLError as error:
        raise OSError(f"NVML does not answer: {error}") from error
    finally:
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _read_all(nvml: Any, host: Host, on_pci: tuple[str, ...]) -> Snapshot:
    gpus: list[Gpu] = []
    unopened: list[int] = []
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            gpus.append(read_gpu(nvml, handle))
        except nvml.NVMLError as error:
            unopened.append(error.value)
    return Snapshot(
        on_pci,
        tuple(sorted(gpus, key=lambda each: each.address)),
        device_files=_device_files(host),
        unopened=tuple(unopened),
    )


def _device_files(host: Host) -> int:
    try:
        return sum(bool(_DEVICE_FILE.fullmatch(each.name)) for each in host.dev.iterdir())
    except OSError:
        return 0


PROBE = Probe("nvml", read, every_s=60.0, deadline_s=20.0, may_hang=True, keep_s=1800.0)
"""The deadline leaves time for eight GPUs that must wake up first, which takes seconds without persistence mode; half
an hour of readings are kept for the slowest rate."""
