"""The state of GPUs at one moment: heat, power, links and memory."""

from __future__ import annotations

import pytest

from tests.unit.evidence import log, watchdog
from tests.unit.inputs.given import moment, of, only, told
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.evidence import Disposition

HEAD = "\n==============NVSMI LOG==============\n\nTimestamp                                 : Thu Mar  5 02:48:19 2026\n\n"

GPU = """GPU 00000000:{bus}:00.0
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 5
                Current                   : {generation}
            Link Width
                Max                       : 16x
                Current                   : {width}x
    Clocks Event Reasons
        SW Power Cap                      : Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : {heat}
            HW Power Brake Slowdown       : {brake}
        SW Thermal Slowdown               : Not Active
    Utilization
        Gpu                               : {busy} %
    ECC Errors
        Volatile
            DRAM Uncorrectable            : {ecc}
        Aggregate
            DRAM Uncorrectable            : 4
    Remapped Rows
        Pending                           : {pending}
        Remapping Failure Occurred        : {failed}
    Temperature
        GPU Current Temp                  : {degrees} C
        {limit}
    Clocks
        SM                                : {clock} MHz
    Max Clocks
        SM                                : 1980 MHz

"""
WELL = {
    "bus": "1B", "generation": 5, "width": 16, "heat": "Not Active", "brake": "Not Active", "busy": 100, "ecc": 0,
    "pending": "No", "failed": "No", "degrees": 45, "limit": "GPU T.Limit Temp                  : 41 C", "clock": 1755,
}  # fmt: skip


def gpus(*changes: dict[str, object], name: str = "nvidia-smi-q.n13.txt"):
    return of(
        {
            name: HEAD
            + "".join(
                GPU.format(**{**WELL, "bus": f"{number:02X}", **each}) for number, each in enumerate(changes, 0x1B)
            )
        }
    )


def test_a_software_power_cap_and_old_errors_are_normal():
    assert gpus({}, {}).findings == ()


@pytest.mark.parametrize(("ended", "label"), [("02:40:00", "hardware/thermal"), ("01:20:00", "network/nccl_timeout")])
def test_a_gpu_that_was_looked_at_soon_after_the_end_counts_and_long_after_not(ended, label):
    hot = gpus({"heat": "Active", "degrees": 92, "limit": "GPU Slowdown Temp : 92 C"}, {})
    end = log(f"2026-03-05 {ended} step 7: loss 2.0", *watchdog(0))
    assert diagnose([*hot.findings, *end], None, window_s=1800.0).label == label


@pytest.mark.parametrize(
    ("degrees", "limit", "convicts"),
    [
        (92, "GPU Slowdown Temp                 : 92 C", True),
        (90, "GPU Slowdown Temp                 : 92 C", True),
        (70, "GPU Slowdown Temp                 : 92 C", False),
        (88, "GPU Shutdown Temp                 : N/A", True),
        (60, "GPU T.Limit Temp                  : 2 C", True),
        (60, "GPU T.Limit Temp                  : 30 C", False),
    ],
)
def test_a_hardware_thermal_slowdown_convicts_where_the_gpu_is_hot(degrees, limit, convicts):
    finding = only(gpus({"heat": "Active", "degrees": degrees, "limit": limit}, {}))
    assert (finding.label, finding.convicts) == ("hardware/thermal", convicts)
    assert (finding.evidence.node, finding.evidence.gpu) == ("n13", "0000:1b:00")
    assert finding.evidence.at == moment("2026-03-05T02:48:19")
    assert "HW Thermal Slowdown" in finding.evidence.text


def test_the_power_brake_convicts_where_it_is_felt():
    assert only(gpus({"brake": "Active", "clock": 345})).convicts
    finding = only(gpus({"brake": "Active"}))
    assert (finding.label, finding.convicts) == ("hardware/power", False)


def test_a_slow_link_counts_under_load_and_beside_faster_ones():
    found = gpus({}, {"generation": 2})
    assert told(found) == [("resource/pcie_bandwidth", "n13", "nvidia-smi-q.n13.txt", 44)]
    assert only(found).detail == "generation=2/5"
    assert gpus({}, {"generation": 1, "busy": 0}).findings == ()
    assert gpus({"generation": 4}, {"generation": 4}).findings == ()


def test_a_narrow_link_is_broken_unless_all_are():
    finding = only(gpus({}, {"width": 8, "busy": 0}))
    assert (finding.label, finding.disposition, finding.detail) == ("hardware/pcie", Disposition.INSPECT, "width=8/16")
    assert gpus({"width": 8}, {"width": 8}).findings == ()


def test_memory_that_waits_for_a_reset_or_cannot_be_mended():
    assert only(gpus({"pending": "Yes"})).disposition is Disposition.RESET_GPU
    assert only(gpus({"pending": "Yes", "failed": "Yes"})).disposition is Disposition.REPLACE
    finding = only(gpus({"ecc": 3}))
    assert (finding.label, finding.detail, finding.convicts) == ("hardware/ecc_uncorrectable", "count=3", False)


def test_the_csv_form_says_the_same():
    text = (
        "timestamp, pci.bus_id, temperature.gpu, clocks_event_reasons.hw_thermal_slowdown\n"
        "2026/03/05 02:48:19.120, 00000000:1B:00.0, 92, Active\n"
        "2026/03/05 02:48:19.121, 00000000:29:00.0, 45, Not Active\n"
    )
    finding = only(of({"smi.n13.csv": text}))
    assert (finding.label, finding.evidence.gpu, finding.evidence.line, finding.convicts) == (
        "hardware/thermal",
        "0000:1b:00",
        2,
        True,
    )


def test_a_gpu_that_the_driver_lost_is_named():
    text = "Unable to determine the device handle for GPU 0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU\n"
    finding = only(of({"nvidia-smi.n4.txt": text}))
    assert (finding.label, finding.evidence.gpu, finding.evidence.node, finding.disposition) == (
        "hardware/gpu_lost",
        "0000:3b:00",
        "n4",
        Disposition.REBOOT,
    )


SEL = """ 1 | 08/19/2024 | 09:40:02 | Power Supply PS3 Status | Power Supply AC lost | Asserted
 2 | 08/19/2024 | 09:58:30 | Power Supply PS3 Status | Power Supply AC lost | Deasserted
 3 | 11/02/2024 | 14:21:17 | Physical Security Chassis Intru | General Chassis intrusion | Asserted
"""


def test_what_was_taken_back_in_the_event_log_is_over():
    assert of({"ipmi-sel.n13.txt": SEL}).findings == ()


def test_one_supply_is_a_hint_and_more_than_are_to_spare_convict_from_the_first():
    one = SEL + " b | 03/05/2026 | 02:18:31 | Power Supply PS1 Status | Failure detected | Asserted\n"
    finding = only(of({"ipmi-sel.n13.txt": one}))
    assert (finding.label, finding.convicts, finding.evidence.line) == ("hardware/power", False, 4)
    two = one + " d | 03/05/2026 | 02:18:40 | Power Supply PS4 Status | Failure detected | Asserted\n"
    assert [(each.convicts, each.evidence.line) for each in of({"ipmi-sel.n13.txt": two}).findings] == [
        (True, 4),
        (True, 5),
    ]


@pytest.mark.parametrize(
    ("row", "label", "convicts"),
    [
        ("Critical Interrupt #0x90 | Bus Fatal Error", "hardware/pcie", True),
        ("Memory #0x53 | Uncorrectable ECC", "hardware/host_memory", True),
        ("Memory #0x53 | Correctable ECC logging limit reached", "hardware/host_memory", False),
        ("Processor CPU0_Status | IERR", "hardware/host_cpu", True),
        ("Temperature CPU1_Temp | Upper Critical going high", "hardware/thermal", True),
        ("Fan FAN3 | Lower Critical going low", "hardware/thermal", False),
        ("Drive Slot / Bay HDD3 | Drive Fault", "hardware/storage", False),
    ],
)
def test_sensors_of_every_kind(row, label, convicts):
    text = f"  2 | 01/18/2023 | 14:49:30 | {row} | Asserted\n"
    finding = only(of({"sel.txt": text}))
    assert (finding.label, finding.convicts, finding.evidence.at) == (label, convicts, moment("2023-01-18T14:49:30"))


def test_a_fan_that_ran_slow_for_a_moment_is_no_fault():
    text = "  9 | 03/04/2026 | 06:03:12 | Fan FAN3 | Lower Non-critical going low  | Asserted | Reading 3900 < Threshold 4000 RPM\n"
    assert of({"sel.txt": text}).findings == ()
