"""The probe of AMD's GPUs: one call of `amd-smi` for who they are, and one for all that the checks judge.

`amd-smi` is a program of its own that can hang as its driver can, so it is run by a child with a deadline. It names
GPUs by index; both calls are made in one read, and the index goes no further than here. What a GPU does not tell is
"N/A", and None here.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wheeltapper.checks.gpu.pci_gpus import AMD, gpus_on_pci
from wheeltapper.checks.gpu.snapshot import growth
from wheeltapper.checks.model import Host, NotApplicable, Probe, Reading
from wheeltapper.evidence import pci_address

PLACE = "opt/rocm/bin/amd-smi"

COMMAND_S = 8.0
"""Seconds for one call: two of them, and some more, are the probe's deadline."""

THERMAL_STATES = ("prochot", "socket_thermal", "vr_thermal", "hbm_thermal")
"""Limits that heat makes the GPU keep; ``ppt``, the power limit, is reached at full load as it should be."""


@dataclass(frozen=True, slots=True)
class AmdGpu:
    """One GPU: errors since its driver was loaded, by what heat slows it down, and its links."""

    address: str
    uuid: str | None = None
    uncorrectable: int | None = None
    deferred: int | None = None
    hotspot_c: int | None = None
    slowed_by: tuple[str, ...] | None = None
    pcie_width: int | None = None
    pcie_replays: int | None = None
    xgmi: str | None = None

    @property
    def named(self) -> dict[str, Any]:
        """The GPU's names, for a finding's evidence."""
        return {"gpu": self.address, "gpu_uuid": self.uuid}


Readings = Sequence[Reading[tuple[AmdGpu, ...]]]


def read(host: Host) -> tuple[AmdGpu, ...]:
    """Return what `amd-smi` tells of each GPU.

    Raises:
        NotApplicable: PCI shows no AMD GPU, or `amd-smi` is not installed.
        OSError: it does not run, or does not end in time.
        ValueError: it tells something else than it should.
    """
    if not gpus_on_pci(host.sysfs, AMD):
        raise NotApplicable("PCI shows no AMD GPU")
    program = shutil.which(host.root / PLACE) or shutil.which("amd-smi")
    if program is None:
        raise NotApplicable("amd-smi is not installed")
    names = {each.get("gpu"): each for each in _asked(program, "list")}
    return tuple(_gpu(names, each) for each in _asked(program, "metric"))


def _asked(program: str, what: str) -> list[dict[str, Any]]:
    try:
        done = subprocess.run([program, what, "--json"], capture_output=True, check=True, timeout=COMMAND_S)
    except subprocess.SubprocessError as error:
        raise OSError(f"amd-smi {what}: {error}") from error
    try:
        told = json.loads(done.stdout)
    except ValueError as error:
        raise ValueError(f"amd-smi {what} told no JSON: {error}") from error
    # From ROCm 7 on the list stands in an object.
    rows = told.get("gpu_data") if isinstance(told, dict) else told
    if not isinstance(rows, list) or not all(isinstance(each, dict) for each in rows):
        raise ValueError(f"amd-smi {what} told no list of GPUs")
    return rows


def _gpu(names: Mapping[Any, Mapping[str, Any]], told: Mapping[str, Any]) -> AmdGpu:
    name = names.get(told.get("gpu"))
    address = pci_address(str(name.get("bdf"))) if name is not None else None
    if name is None or address is None:
        raise ValueError(f"amd-smi list does not name GPU {told.get('gpu')}, of which amd-smi metric tells")
    uuid = name.get("uuid")
    xgmi = told.get("xgmi_err")
    return AmdGpu(
        address,
        uuid if isinstance(uuid, str) else None,
        _number(told, "ecc", "total_uncorrectable_count"),
        _number(told, "ecc", "total_deferred_count"),
        _number(told, "temperature", "hotspot"),
        _slowed_by(told.get("throttle")),
        _number(told, "pcie", "width"),
        _number(told, "pcie", "replay_count"),
        xgmi if isinstance(xgmi, str) and xgmi != "N/A" else None,
    )


def _number(told: Mapping[str, Any], part: str, key: str) -> int | None:
    """Return the number called *key*, which may stand beside its unit."""
    within = told.get(part)
    value = within.get(key) if isinstance(within, dict) else None
    if isinstance(value, dict):
        value = value.get("value")
    try:
        return int(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None


def _slowed_by(throttle: Any) -> tuple[str, ...] | None:
    if not isinstance(throttle, dict):
        return None
    states = {name: throttle.get(f"{name}_violation_status") for name in THERMAL_STATES}
    if not any(each in {"ACTIVE", "NOT ACTIVE"} for each in states.values()):
        return None
    return tuple(name for name, state in states.items() if state == "ACTIVE")


def having(readings: Readings, field: str) -> tuple[AmdGpu, ...]:
    """Return the GPUs of the newest reading that tell *field*.

    Raises:
        NotApplicable: none does.
    """
    found = tuple(each for each in readings[-1].value if getattr(each, field) is not None)
    if not found:
        raise NotApplicable(f"no GPU here tells its {field.replace('_', ' ')}")
    return found


def per_minute(readings: Readings, address: str, field: str) -> float:
    """Return how fast the counter *field* of the GPU at *address* grew; 0 from one reading."""
    seen = [
        (reading.at, value)
        for reading in readings
        for gpu in reading.value
        if gpu.address == address and (value := getattr(gpu, field)) is not None
    ]
    if len(seen) < 2 or seen[-1][0] <= seen[0][0]:
        return 0.0
    return growth([value for _, value in seen]) * 60 / (seen[-1][0] - seen[0][0])


PROBE = Probe("amd_smi", read, every_s=120.0, deadline_s=20.0, may_hang=True, keep_s=600.0)
"""Every two minutes, since each call starts a Python program; ten minutes of readings are kept for a rate."""
