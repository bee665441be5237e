"""Which faults of a boot still stand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wheeltapper import catalogue
from wheeltapper.checks.open_faults import NEW_AFTER_S, open_faults
from wheeltapper.kmsg import parse_record
from wheeltapper.scan import scan_kernel

CATALOGUE = catalogue.load()
A, B = "0000:3b:00", "0000:86:00"


def log(*lines: str | tuple[float, str]):
    """Return the findings of a kernel log with one line a second, or at the time that a line comes with."""
    found = []
    for number, line in enumerate(lines, start=1):
        at, text = line if isinstance(line, tuple) else (float(number), line)
        record = parse_record(f"3,{number},{number}000000,-;{text}")
        assert record is not None
        found += scan_kernel(record, CATALOGUE, node="n2", boot_id="b", at=at)
    return found


def xid(code: int, gpu: str = A, text: str = "words") -> str:
    return f"NVRM: Xid (PCI:{gpu}): {code}, pid=7, name=python, {text}"


def advice(old: int, new: int, gpu: str = A) -> str:
    return xid(154, gpu, f"GPU recovery action changed from 0x{old:x} (words) to 0x{new:x} (other words)")


def told(*lines: str | tuple[float, str]):
    faults = open_faults(log(*lines))
    return [(each.detail, each.evidence.gpu, each.disposition.value, each.evidence.sequence) for each in faults]


def test_nothing_stands_on_a_quiet_log_or_after_the_applications_own_xids():
    assert told() == []
    assert told(xid(13), xid(31), xid(43), xid(45), xid(63), xid(94), "EDAC MC: Ver: 3.0.0") == []


def test_the_gravest_comes_first_and_each_gpu_once():
    assert told(xid(48, B), xid(95, B), xid(79)) == [("xid=79", A, "reboot", 3), ("xid=48", B, "reset_gpu", 1)]


def test_a_burst_is_one_fault_with_the_name_of_its_first_line():
    assert told(*[xid(79)] * 50, "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.") == [("xid=79", A, "reboot", 1)]


def test_a_gpu_that_the_driver_also_calls_lost_bears_that_label_in_the_verdict_too():
    (alone,) = open_faults(log(xid(79)))
    (both,) = open_faults(log(xid(79), "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus."))
    other, _ = open_faults(log(xid(79), "NVRM: GPU 0000:86:00.0: GPU has fallen off the bus."))
    assert [each.label for each in (alone, both, other)] == [
        "hardware/gpu_xid",
        "hardware/gpu_lost",
        "hardware/gpu_xid",
    ]
    assert (both.detail, both.disposition.value) == ("xid=79", "reboot")


def test_the_same_fault_after_long_quiet_is_a_new_one():
    lines = [(100.0, xid(48)), (100.0 + NEW_AFTER_S, xid(48)), (101.0 + 2 * NEW_AFTER_S, xid(48))]
    assert told(*lines[:2]) == [("xid=48", A, "reset_gpu", 1)]
    assert told(*lines) == [("xid=48", A, "reset_gpu", 3)]


def test_the_drivers_all_clear_takes_back_what_came_before_it_on_that_gpu():
    assert told(xid(48), xid(48, B), advice(1, 0)) == [("xid=48", B, "reset_gpu", 2)]
    assert told(xid(48), advice(1, 0), xid(48)) == [("xid=48", A, "reset_gpu", 3)]


def test_the_drivers_newest_advice_raises_the_disposition():
    assert told(xid(48), advice(0, 2)) == [("xid=48", A, "reboot", 1)]
    assert told(xid(94), advice(0, 1)) == [("xid=94", A, "reset_gpu", 1)]
    assert told(xid(79), advice(0, 1)) == [("xid=79", A, "reboot", 1)]
    assert told(xid(48), advice(0, 2), advice(2, 1)) == [("xid=48", A, "reset_gpu", 1)]


def test_an_advice_whose_fault_is_lost_stands_for_it():
    assert told(advice(0, 2)) == [("xid=154", A, "reboot", 1)]
    assert told(advice(0, 4), advice(4, 0)) == []
    assert told(xid(43), advice(0, 3), advice(3, 5)) == []


def test_an_advice_that_cannot_be_read_changes_nothing():
    assert told(xid(79), xid(154, text="something else")) == [("xid=79", A, "reboot", 1)]


def test_a_gpu_lost_at_probe_has_the_address_of_the_first_of_its_three_lines():
    lines = (
        "NVRM: The NVIDIA GPU 0000:86:00.0",
        "NVRM: (PCI ID: 10de:2330) installed in this system has",
        "NVRM: fallen off the bus and is not responding to commands.",
    )
    assert told(*lines) == [("", B, "reboot", 3)]
    assert told(*lines[1:]) == [("", None, "reboot", 2)]


def test_faults_of_the_host_stand_beside_those_of_a_gpu():
    mce = "mce: [Hardware Error]: CPU 0: Machine Check Exception: 5 Bank 4: b200000000000108"
    assert [row[2] for row in told(mce, xid(79))] == ["reboot", "inspect"]


LINES = st.lists(st.sampled_from([xid(48), xid(79), xid(94), xid(13), advice(0, 1), advice(1, 2), advice(2, 0)]))


@given(LINES)
def test_what_stands_still_stands_when_it_is_asked_again(lines):
    faults = open_faults(log(*lines))
    assert open_faults(faults) == faults


@given(LINES)
def test_an_all_clear_at_the_end_leaves_nothing(lines):
    assert told(*lines, advice(1, 0)) == []
