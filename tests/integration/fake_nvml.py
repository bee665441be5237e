"""NVML without a GPU: the real ``pynvml`` on our own ``libnvidia-ml.so``, built here from C, and scenarios for it.

A scenario is a table, as it stands in a machine's file under ``nvml``: every GPU is healthy but for what is said.

``addresses``: the GPUs that PCI shows (two when absent). ``listed``: those that NVML lists, in this order (all when
absent). ``device_files``: how many ``/dev/nvidia0``… there are (as many as GPUs when absent). ``gpus."ADDRESS"``: what
is different about one: keys of ``HEALTHY``, ``without`` (keys that its driver does not know), ``orders`` (lines
``fail CALL CODE`` or ``hang CALL``). ``orders``: the same for every GPU, and for ``nvmlInit``. ``old_driver``: a library
without the calls of newer drivers.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.fake_loading import load

__all__ = ["HEALTHY", "TWO", "lay", "library", "load", "render"]

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests/native/libnvidia_ml.c"

TWO = ("0000:3b:00", "0000:86:00")

LINKS = 18

HEALTHY: dict[str, int | str] = {
    "name": "NVIDIA H100 80GB HBM3",
    "field.230": 0,
    "field.82": 50,
    "ecc_uncorrected": 0,
    "ecc_corrected": 0,
    "sram_exceeded": 0,
    "rows_pending": 0,
    "rows_failed": 0,
    "temperature.0": 45,
    "threshold.1": 90,
    "threshold.2": 95,
    "left": 42,
    "clock_reasons": 0x1,
    "clock.1": 345,
    "max_clock.1": 1980,
    "pcie_width": 16,
    "pcie_max_width": 16,
    "pcie_generation": 1,
    "pcie_max_generation": 5,
    "pcie_replays": 0,
    "fabric_state": 3,
    "fabric_status": 0,
    # Each two-bit field says "not so", the configuration is fine, a partition is assigned, the manager is connected.
    "fabric_health": 0b01_01_0001_10_10_10_10,
    "busy_percent": 0,
    "memory_mb": 4,
    "persistence": 1,
    "mig": 0,
    "mig_pending": 0,
    "ecc_mode": 1,
    "ecc_mode_pending": 1,
    **{f"link.{number}": 1 for number in range(LINKS)},
    **{f"field.{counter}.{number}".removesuffix(".0"): 0 for counter in (162, 163) for number in range(LINKS)},
}
"""A Hopper GPU on which nothing runs."""


def library(*, old_driver: bool = False) -> Path:
    """Return our library, built when it is not there yet; skip the test where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no C compiler here; type: sudo apt-get install gcc libc6-dev")
    options = ["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-Wl,-soname,libnvidia-ml.so.1"]
    options += ["-DOLD_DRIVER"] if old_driver else []
    version = hashlib.sha256(SOURCE.read_bytes() + " ".join(options).encode()).hexdigest()[:16]
    built = ROOT / "build/native" / version / "libnvidia-ml.so.1"
    if not built.exists():
        built.parent.mkdir(parents=True, exist_ok=True)
        fresh = built.with_name(f"{os.getpid()}.so")  # two test processes may build it at once
        subprocess.run([compiler, *options, "-o", fresh, SOURCE], check=True)
        fresh.replace(built)
    return built


def lay(folder: Path, told: Mapping[str, Any]) -> Path:
    """Put what PCI and ``/dev`` show of the GPUs *told* into *folder*, and return the file with their scenario."""
    addresses = told.get("addresses", TWO)
    for address in addresses:
        device = folder / f"sys/bus/pci/devices/{address}.0"
        device.mkdir(parents=True, exist_ok=True)
        (device / "vendor").write_text("0x10de\n")
        (device / "class").write_text("0x030200\n")
    dev = folder / "dev"
    dev.mkdir(exist_ok=True)
    for number in range(told.get("device_files", len(addresses))):
        (dev / f"nvidia{number}").touch()
    scenario = folder / "nvml"
    scenario.write_text(render(told))
    return scenario


def render(told: Mapping[str, Any]) -> str:
    """Return the scenario *told* in the words of the library."""
    addresses = told.get("addresses", TWO)
    lines = [*told.get("orders", ())]
    for address in told.get("listed", addresses):
        different = dict(told.get("gpus", {}).get(address, {}))
        orders, without = different.pop("orders", ()), different.pop("without", ())
        named = {"pci": f"0000{address.upper()}.0", "uuid": f"GPU-{hashlib.md5(address.encode()).hexdigest()}"}
        values = {**named, **HEALTHY, **different}
        lines += ["gpu", *orders, *(f"{key} {value}" for key, value in values.items() if key not in without)]
    return "\n".join(lines) + "\n"
