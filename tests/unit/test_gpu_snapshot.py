"""The values of NVML's snapshot: counters that begin anew, and what "not supported" means for all GPUs together."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheeltapper.checks.gpu.fabric import wrongs
from wheeltapper.checks.gpu.snapshot import Fabric, Gpu, Heat, Snapshot, Use, before, growth
from wheeltapper.checks.model import NotApplicable, Reading

A, B = "0000:3b:00", "0000:86:00"

WELL = 0b01_01_0001_10_10_10_10


@pytest.mark.parametrize(
    ("values", "grown"),
    [((), 0), ((7,), 0), ((7, 7), 0), ((7, 9, 12), 5), ((100, 3), 3), ((5, 8, 2, 4), 7)],
)
def test_a_counter_below_its_predecessor_began_anew(values, grown):
    assert growth(values) == grown


@given(st.lists(st.integers(0, 2**63)))
def test_no_counter_ever_shrinks(values):
    assert growth(values) >= 0


def test_gpus_that_do_not_tell_a_field_are_passed_over():
    seen = Snapshot((A, B), (Gpu(A, ecc_corrected=3), Gpu(B, unread={"ecc_corrected": 3})))

    assert [each.address for each in seen.having("ecc_corrected")] == [A]


@pytest.mark.parametrize("code", [3, 13, 25])
def test_a_field_that_no_gpu_has_is_not_applicable(code):
    seen = Snapshot((A,), (Gpu(A, unread={"fabric": code}),))
    with pytest.raises(NotApplicable, match="no GPU here tells its fabric"):
        seen.having("fabric")


@pytest.mark.parametrize(
    ("gpus", "said"),
    [
        ((Gpu(A, unread={"rows": 3}), Gpu(B, unread={"rows": 999})), r"NVML error 3, 999"),
        ((Gpu(A, fault=15),), "NVML error unknown"),
        ((), "NVML shows no GPU"),
    ],
)
def test_a_field_that_could_not_be_read_is_no_good_news(gpus, said):
    with pytest.raises(ValueError, match=said):
        Snapshot((A, B), gpus).having("rows")


def test_a_driver_that_serves_nobody_says_with_which_error():
    with pytest.raises(ValueError, match=r"NVML shows no GPU \(error 18\)"):
        Snapshot((A,), refused=18).having("rows")


def test_only_readings_within_the_window_that_saw_the_gpu_count():
    times = (0.0, 600.0, 1200.0)
    readings = [Reading(at, Snapshot((A,), (Gpu(A, heat=Heat(40)),) if at != 600.0 else ())) for at in times]

    assert [at for at, _ in before(readings, A, 1200.0)] == [0.0, 1200.0]
    assert [at for at, _ in before(readings, A, 700.0)] == [1200.0]


def test_a_gpu_of_which_nothing_is_known_is_not_called_idle():
    assert not Gpu(A).is_idle
    assert not Gpu(A, use=Use(0, 4, (4711,))).is_idle
    assert not Gpu(A, use=Use(3, 4, ())).is_idle
    assert Gpu(A, use=Use(0, 4, ())).is_idle


def test_a_snapshot_travels_between_processes():
    seen = Snapshot((A,), (Gpu(A, heat=Heat(40), unread={"rows": 3}),))

    assert pickle.loads(pickle.dumps(seen)) == seen


@pytest.mark.parametrize(
    ("bits", "value", "said"),
    [
        (0, 1, "bandwidth is degraded"),
        (2, 1, "a route is being recovered"),
        (4, 1, "a route is unhealthy"),
        (6, 1, "an access timed out"),
        (8, 5, "NVLinks are missing"),
        (8, 15, "the configuration is wrong (15)"),
        (12, 2, "no partition is assigned"),
        (14, 2, "the fabric's manager is not connected"),
    ],
)
def test_each_field_of_the_health_mask_is_read_by_itself(bits, value, said):
    width = 0b1111 if bits == 8 else 0b11
    mask = WELL & ~(width << bits) | value << bits

    assert wrongs(Fabric(3, 0, mask)) == [said]


@pytest.mark.parametrize("mask", [WELL, 0])
def test_a_healthy_mask_is_not_zero_and_zero_tells_nothing(mask):
    assert wrongs(Fabric(3, 0, mask)) == []
