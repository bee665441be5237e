"""Counters before and after, in the forms in which they are saved."""

from __future__ import annotations

import pytest

from tests.unit.inputs.given import labels, of, only, reading, told

PORT = """{when}
== {node} port state
# Port counters: Lid {lid} port 1 (CapMask: 0x5A00)
PortSelect:......................1
SymbolErrorCounter:..............{symbols}
LinkErrorRecoveryCounter:........0
LinkDownedCounter:...............{downed}
PortRcvErrors:...................0
VL15Dropped:.....................0
PortXmitPkts:....................{packets}
"""
BEFORE, AFTER = "Mon Mar 10 06:40:02 UTC 2025", "Mon Mar 10 07:40:02 UTC 2025"


def ports(when: str, **nodes: int) -> str:
    return "".join(
        PORT.format(when=when, node=node, lid=lid, symbols=symbols, downed=25, packets=10**9)
        for lid, (node, symbols) in enumerate(nodes.items(), start=61)
    )


def test_only_the_port_that_gained_errors_is_named_and_old_numbers_say_nothing():
    found = of({"pq.before.txt": ports(BEFORE, n02=65535, n04=12), "pq.after.txt": ports(AFTER, n02=65535, n04=48113)})
    assert told(found) == [("network/link_errors", "n04", "pq.after.txt", 15)]
    finding = only(found)
    assert finding.detail == "symbol_error=+48101"
    assert finding.evidence.at is None, "it may have grown at any time since the first sample"
    data = ports(AFTER, n02=65535, n04=48113).encode()
    assert data[finding.evidence.offset :].startswith(b"SymbolErrorCounter:..............48113")


def test_the_budget_is_per_hour():
    assert labels(of({"a.before.txt": ports(BEFORE, n1=0), "a.after.txt": ports(AFTER, n1=120)})) == []
    assert labels(of({"a.before.txt": ports(BEFORE, n1=0), "a.after.txt": ports(AFTER, n1=121)})) == [
        "network/link_errors"
    ]


def test_one_sample_alone_says_nothing():
    assert of({"pq.txt": ports(AFTER, n1=65535)}).findings == ()


def test_a_counter_that_was_reset_counts_from_zero():
    found = of({"a.before.txt": ports(BEFORE, n1=60000), "a.after.txt": ports(AFTER, n1=900)})
    assert only(found).detail == "symbol_error=+900"


def test_errors_on_most_ports_are_no_nodes_fault():
    before, after = ports(BEFORE, n1=0, n2=0, n3=0), ports(AFTER, n1=5000, n2=5000, n3=5000)
    assert {each.evidence.node for each in of({"a.before.txt": before, "a.after.txt": after}).findings} == {None}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            {"n7/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed": "3\n"},
            {"n7/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed": "4\n"},
        ),
        (
            {"ib.n7.before.txt": "/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed:3\n"},
            {"ib.n7.after.txt": "/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed:4\n"},
        ),
        (
            {"ib.before.txt": "n7: /sys/class/infiniband/mlx5_0/ports/1/counters/link_downed:3\n"},
            {"ib.after.txt": "n7: /sys/class/infiniband/mlx5_0/ports/1/counters/link_downed:4\n"},
        ),
        (
            {"ib.n7.before.txt": "==> /sys/class/infiniband/mlx5_0/ports/1/counters/link_downed <==\n3\n"},
            {"ib.n7.after.txt": "==> /sys/class/infiniband/mlx5_0/ports/1/counters/link_downed <==\n4\n"},
        ),
        (
            {"nic.n7.before.txt": "# ethtool -S ens1\nNIC statistics:\n     link_down_events_phy: 1\n"},
            {"nic.n7.after.txt": "# ethtool -S ens1\nNIC statistics:\n     link_down_events_phy: 2\n"},
        ),
    ],
)
def test_a_link_that_went_down_is_seen_in_every_form(before, after):
    files = {f"before/{name}" if name in after else name: text for name, text in before.items()}
    files |= {f"after/{name}" if name in before else name: text for name, text in after.items()}
    finding = only(of(files))
    assert (finding.label, finding.evidence.node, finding.detail.partition("=")[2]) == ("network/link_down", "n7", "+1")


NIC = """##### {node}
# {when} ethtool -S rdma2
NIC statistics:
     rx_prio3_packets: {packets}
     rx_prio3_pause: {pauses}
     rx_crc_errors_phy: 0
"""


def nics(when: str, pauses: dict[str, int], packets: int) -> str:
    return "".join(NIC.format(node=node, when=when, pauses=count, packets=packets) for node, count in pauses.items())


def test_pauses_on_every_host_are_congestion_and_no_hosts_fault():
    found = of(
        {
            "nic.before.txt": nics("2024-10-02T15:58:04", {"w1": 10, "w3": 10}, 10**9),
            "nic.after.txt": nics("2024-10-02T17:12:40", {"w1": 70_000_000, "w3": 68_000_000}, 6 * 10**9),
        }
    )
    assert [row[:2] for row in told(found)] == [("network/congestion", None)] * 2


def test_a_few_pauses_in_a_thousand_are_none():
    found = of(
        {
            "nic.before.txt": nics("2024-10-02T15:58:04", {"w1": 10}, 10**9),
            "nic.after.txt": nics("2024-10-02T17:12:40", {"w1": 900_000}, 6 * 10**9),
        }
    )
    assert found.findings == ()


WAITS = """{when}
== {node}
# Port counters: Lid 7 port 1
PortXmitDiscards:................{discards}
PortXmitData:....................{data}
PortXmitWait:....................{wait}
"""


@pytest.mark.parametrize(
    ("wait", "discards", "expected"),
    [
        (9 * 10**8, 0, ["network/congestion"]),
        (10**6, 0, []),
        (10**6, 400_000, ["network/congestion"]),
        (10**6, 4_000, []),
    ],
    ids=["senders wait", "ordinary", "packets are dropped", "a few drops"],
)
def test_infiniband_ports_that_wait_or_drop(wait, discards, expected):
    found = of(
        {
            "pq.before.txt": WAITS.format(when=BEFORE, node="n1", discards=0, data=0, wait=0),
            "pq.after.txt": WAITS.format(when=AFTER, node="n1", discards=discards, data=10**9, wait=wait),
        }
    )
    assert labels(found) == expected


CPU = "# p-worker-0 {when} /sys/fs/cgroup/cpu.stat\nusage_usec 1\nnr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec {usec}\n"


def test_a_limit_that_stops_the_job_nearly_all_the_time_is_the_last_sample():
    text = CPU.format(when="2024-02-11T08:02:00Z", periods=1043, throttled=1019, usec=2 * 10**9)
    text += CPU.format(when="2024-02-11T09:26:30Z", periods=51690, throttled=51655, usec=10**11)
    found = of({"cpu.stat": text})
    assert told(found) == [("resource/cpu_throttle", "p-worker-0", "cpu.stat", 9)]


@pytest.mark.parametrize(
    ("periods", "throttled", "usec"),
    [(500, 490, 10**9), (5000, 2900, 10**10), (5000, 4900, 10**6)],
    ids=["too short to tell", "bursts", "stopped for no time"],
)
def test_throttling_that_costs_nothing_is_none(periods, throttled, usec):
    text = CPU.format(when="2024-02-11T08:02:00Z", periods=periods, throttled=throttled, usec=usec)
    assert of({"cpu.stat": text}).findings == ()


def test_cgroup_v1_counts_nanoseconds():
    assert labels(of({"cpu.stat": "nr_periods 5000\nnr_throttled 4900\nthrottled_time 60000000000\n"})) == [
        "resource/cpu_throttle"
    ]
    assert labels(of({"cpu.stat": "nr_periods 5000\nnr_throttled 4900\nthrottled_time 60000000\n"})) == []


def test_a_kill_in_the_cgroup_is_host_memory_and_its_other_events_are_not():
    events = "low 0\nhigh 12\nmax 9001\noom 1\noom_kill {}\noom_group_kill 0\n"
    assert told(of({"n5/memory.events": events.format(1)})) == [("resource/host_oom", "n5", "n5/memory.events", 5)]
    assert of({"n5/memory.events": events.format(0)}).findings == ()
    assert labels(of({"memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"})) == ["resource/host_oom"]


def test_uncorrectable_host_memory_convicts_and_corrected_only_bears_witness():
    path = "/sys/devices/system/edac/mc/mc0/{}_count:{}\n"
    found = of(
        {
            "edac.n3.before.txt": path.format("ue", 0) + path.format("ce", 2),
            "edac.n3.after.txt": path.format("ue", 1) + path.format("ce", 9),
        }
    )
    assert [(each.label, each.convicts, each.role.value) for each in found.findings] == [
        ("hardware/host_memory", True, "root"),
        ("hardware/host_memory", False, "confirm"),
    ]


def test_a_fatal_error_of_a_pci_device_convicts():
    path = "sys/bus/pci/devices/0000:3b:00.0/aer_dev_fatal"
    counts = "Undefined 0\nDLP {0}\nSDES 0\nTLP 0\nFCP 0\nCmpltTO 0\nCmpltAbrt 0\nUnxCmplt 0\nTOTAL_ERR_FATAL {0}\n"
    found = of({f"before/n3/{path}": counts.format(0), f"after/n3/{path}": counts.format(1)})
    finding = only(found)
    assert (finding.label, finding.convicts, finding.evidence.node, finding.evidence.line) == (
        "hardware/pcie",
        True,
        "n3",
        9,
    )


def test_a_cgroup_without_process_numbers():
    assert labels(of({"n3/pids.events": "max 4\n"})) == ["resource/pids_limit"]
    assert of({"n3/pids.events": "max 0\n"}).findings == ()


def test_nvlink_recoveries_during_the_job_are_a_hint():
    text = "# {when} nvidia-smi nvlink -e\nGPU 0: NVIDIA H100 (UUID: GPU-0a)\n\t Link 5: Replay Errors: 0\n\t Link 5: Recovery Errors: {count}\n\t Link 5: CRC Errors: 7\n"
    files = {
        "nvlink.before.txt": text.format(when="2025-06-18 03:58:01", count=2),
        "nvlink.after.txt": text.format(when="2025-06-18 11:58:01", count=4),
    }
    finding = only(of(files))
    assert (finding.label, finding.detail, finding.convicts) == ("hardware/nvlink", "recovery=+2", False)
    files["nvlink.after.txt"] = text.format(when="2025-06-18 11:58:01", count=2)
    assert of(files).findings == ()


def test_a_training_log_is_no_counter_file():
    text = "step 1: loss 2.5\nnr_throttled is a counter\nrx_packets: 5\n"
    assert reading("slurm-1.out", text).samples == ()
