"""The NVML probe on the real ``pynvml`` and our library: what it reads, what it leaves behind, and what it survives."""

from __future__ import annotations

import asyncio

import pynvml
import pytest

from tests.integration import fake_nvml, machine
from tests.integration.polling import children
from tests.unit.make import BOOT
from wheeltapper.checks.gpu import nvml
from wheeltapper.checks.model import Host, NotApplicable
from wheeltapper.config import NodeSection
from wheeltapper_hooks.agent.processes import in_child

A, B = fake_nvml.TWO

EIGHT = tuple(f"0000:{bus}:00" for bus in ("1b", "43", "52", "61", "9d", "c3", "d1", "df"))


@pytest.fixture
def host(tmp_path):
    return Host("n1", BOOT, NodeSection(), sysfs=tmp_path / "sys", dev=tmp_path / "dev", root=tmp_path)


def snapshot(host, **told):
    return machine.read(nvml.PROBE, host, host.root, {"nvml": told})


def test_a_gpu_keeps_its_address_and_uuid_when_the_indices_shift(host):
    whole = snapshot(host, addresses=EIGHT)
    after = snapshot(host, addresses=EIGHT, listed=[each for each in EIGHT if each != EIGHT[2]])

    assert len(whole.gpus) == 8
    assert [(each.address, each.uuid) for each in after.gpus] == [
        (each.address, each.uuid) for each in whole.gpus if each.address != EIGHT[2]
    ]


def test_what_an_old_driver_does_not_know_costs_no_other_field(host):
    gpu = snapshot(host, old_driver=True).gpu(A)

    assert (gpu.recovery_action, gpu.sram_exceeded, gpu.fabric, gpu.heat.left_c) == (None, None, None, None)
    assert set(gpu.unread) == {"sram_exceeded", "fabric", "fields", "recovery_action", "pages"}
    assert set(gpu.unread.values()) == {pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}
    assert (gpu.rows.pending, gpu.heat.gpu_c, gpu.clocks.reasons, gpu.use.pids) == (False, 45, 1, ())


@pytest.mark.parametrize("code", [3, 10, 16, 999])
@pytest.mark.parametrize(
    ("call", "field"),
    [
        ("nvmlDeviceGetTotalEccErrors", "ecc_corrected"),
        ("nvmlDeviceGetRemappedRows", "rows"),
        ("nvmlDeviceGetNvLinkState", "links"),
        ("nvmlDeviceGetUtilizationRates", "use"),
    ],
)
def test_a_call_that_fails_costs_its_own_field_and_says_why(host, call, field, code):
    seen = snapshot(host, gpus={A: {"orders": [f"fail {call} {code}"]}})

    assert getattr(seen.gpu(A), field) is None
    assert seen.gpu(A).unread[field] == code
    assert seen.gpu(A).heat is not None
    assert getattr(seen.gpu(B), field) is not None


def test_a_lost_gpu_is_asked_no_more(host):
    orders = ["fail nvmlDeviceGetTotalEccErrors 15", "hang nvmlDeviceGetTemperature"]
    seen = snapshot(host, gpus={A: {"orders": orders}})

    assert (seen.gpu(A).fault, seen.gpu(A).heat) == (15, None)
    assert seen.gpu(B).fault is None


def test_nvml_is_shut_down_after_each_read_so_that_a_gpu_can_be_reset(host):
    scenario = fake_nvml.lay(host.root, {})
    library = fake_nvml.library()

    def work() -> bytes:
        fake_nvml.load(library, scenario)
        nvml.read(host)
        try:
            pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            return str(error).encode()
        return b"still open"

    assert asyncio.run(in_child(work, 20.0)) == b"Uninitialized"


def test_an_nvml_that_does_not_start_says_why(host):
    with pytest.raises(OSError, match="NVML does not start: Timeout"):
        snapshot(host, orders=["fail nvmlInit 10"])


def test_without_a_gpu_nvml_is_not_even_looked_for(host):
    (host.sysfs / "bus/pci/devices").mkdir(parents=True)
    with pytest.raises(NotApplicable, match="PCI shows no NVIDIA GPU"):
        nvml.read(host)


@pytest.mark.parametrize(
    "call", ["nvmlInit", "nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetFieldValues", "nvmlShutdown"]
)
def test_a_call_that_hangs_for_ever_ends_at_the_deadline(host, call):
    before = children()
    with pytest.raises(TimeoutError, match=r"did not end within 0\.2 s"):
        machine.read(nvml.PROBE, host, host.root, {"nvml": {"orders": [f"hang {call}"]}, "deadline_s": 0.2})

    assert set(children()) <= set(before)
