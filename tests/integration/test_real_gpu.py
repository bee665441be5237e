"""The NVML probe and its checks on a machine with a real NVIDIA GPU, beside what `nvidia-smi` says there."""

from __future__ import annotations

import asyncio
import csv
import io
import pickle
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from wheeltapper.checks import registry
from wheeltapper.checks.gpu import nvml
from wheeltapper.checks.model import Host, NotApplicable, Reading
from wheeltapper.evidence import pci_address
from wheeltapper_hooks.agent.processes import in_child

pytestmark = pytest.mark.gpu

NVIDIA_SMI = {
    "pci.bus_id": "address",
    "uuid": "uuid",
    "name": "name",
    "ecc.errors.uncorrected.volatile.total": "ecc_uncorrected",
    "pcie.link.width.max": "width",
    "temperature.gpu": "degrees",
    "persistence_mode": "persistence",
}


@pytest.fixture(scope="module")
def readings():
    """Two readings of this machine, a second apart."""
    if not Path("/proc/driver/nvidia/version").exists() or shutil.which("nvidia-smi") is None:
        pytest.skip("there is no NVIDIA driver on this machine")
    first, second = read(), read()
    return [Reading(time.time() - 1.0, first), Reading(time.time(), second)]


def read():
    def work() -> bytes:
        return pickle.dumps(nvml.read(Host("here", "boot")))

    return pickle.loads(asyncio.run(in_child(work, nvml.PROBE.deadline_s)))


@pytest.fixture(scope="module")
def told(readings):
    """What `nvidia-smi` says, by address; readings are asked for first, so that a machine without a GPU skips."""
    command = ["nvidia-smi", f"--query-gpu={','.join(NVIDIA_SMI)}", "--format=csv,noheader,nounits"]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    rows = [
        dict(zip(NVIDIA_SMI.values(), row, strict=True))
        for row in csv.reader(io.StringIO(output), skipinitialspace=True)
    ]
    return {pci_address(row["address"]): row for row in rows}


def test_every_gpu_is_read_and_named_as_nvidia_smi_names_it(readings, told):
    seen = readings[-1].value

    assert {each.address: (each.uuid, each.name) for each in seen.gpus} == {
        address: (row["uuid"], row["name"]) for address, row in told.items()
    }
    assert {each.address for each in seen.gpus} <= set(seen.on_pci)
    assert seen.refused is None


def test_the_values_agree_with_nvidia_smi(readings, told):
    for gpu in readings[-1].value.gpus:
        row = told[gpu.address]
        errors = row["ecc_uncorrected"]
        assert gpu.ecc_uncorrected == (int(errors) if errors.isdigit() else None)
        assert gpu.pcie.max_width == int(row["width"])
        assert gpu.persistence == (row["persistence"] == "Enabled")
        # The temperature moves between two questions.
        assert abs(gpu.heat.gpu_c - int(row["degrees"])) <= 10


def test_the_values_are_such_as_a_gpu_can_have(readings):
    for gpu in readings[-1].value.gpus:
        assert 0 < gpu.heat.gpu_c < 120
        assert 1 <= gpu.pcie.width <= gpu.pcie.max_width <= 32
        assert 1 <= gpu.pcie.generation <= gpu.pcie.max_generation <= 8
        assert gpu.clocks.reasons >= 0
        assert 0 <= gpu.use.busy_percent <= 100
        assert gpu.fault is None
        assert set(gpu.unread.values()) <= {3, 13}, "every field is read, or is not supported here"


def test_what_counts_does_not_shrink(readings):
    first, second = (reading.value for reading in readings)
    for gpu in second.gpus:
        earlier = first.gpu(gpu.address)
        assert gpu.ecc_uncorrected is None or gpu.ecc_uncorrected >= earlier.ecc_uncorrected
        assert gpu.pcie.replays is None or gpu.pcie.replays >= earlier.pcie.replays


def test_every_check_judges_and_no_gpu_that_works_is_convicted(readings):
    checks = [module.CHECK for module in registry.shipped().values() if module.CHECK.probe is nvml.PROBE]
    for check in checks:
        try:
            found = list(check.judge(readings, Host("here", "boot"), check.limits()))
        except NotApplicable:
            continue
        assert not [each.evidence.text for each in found if each.convicts], check.name
    assert len(checks) >= 15
