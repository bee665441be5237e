"""What the tools of a node print: ports, sensors, pressure, NVIDIA's checks."""

from __future__ import annotations

import pytest

from tests.unit.inputs.given import labels, of, only, told

PORT = "CA 'mlx5_{n}'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: {state}\n\t\tPhysical state: {physical}\n\t\tRate: 400\n\t\tLink layer: InfiniBand\n"
UP, POLLING, DISABLED = ("Active", "LinkUp"), ("Down", "Polling"), ("Down", "Disabled")


def ibstat(*ports: tuple[str, str]) -> str:
    return "".join(PORT.format(n=n, state=state, physical=physical) for n, (state, physical) in enumerate(ports))


def test_one_port_that_polls_while_the_others_are_up_is_down():
    found = of({"ibstat-big-15.txt": ibstat(UP, UP, POLLING)})
    assert told(found) == [("network/link_down", "big-15", "ibstat-big-15.txt", 19)]
    assert only(found).detail == "port=mlx5_2"


@pytest.mark.parametrize("ports", [(UP, UP, UP), (UP, UP, DISABLED), (UP, UP, POLLING, POLLING), (UP, POLLING)])
def test_spare_ports_and_disabled_ones_are_no_fault(ports):
    assert of({"ibstat-big-15.txt": ibstat(*ports)}).findings == ()


def test_a_port_that_polls_is_down_where_the_same_port_is_up_on_the_other_nodes():
    files = {"ibstat-n1.txt": ibstat(UP), "ibstat-n2.txt": ibstat(UP), "ibstat-n3.txt": ibstat(POLLING)}
    assert [row[:2] for row in told(of(files))] == [("network/link_down", "n3")]
    spare = {"ibstat-n1.txt": ibstat(UP, POLLING), "ibstat-n2.txt": ibstat(UP, POLLING)}
    assert of(spare).findings == ()


SENSORS = "CPU1 Temp        | {cpu}\nFAN7             | {fan}\nInlet Temp       | 24 degrees C      | ok\n"


def test_sensors_beyond_their_limits():
    text = SENSORS.format(cpu="98 degrees C      | cr", fan="0 RPM             | nr")
    found = of({"ipmitool-sdr.n4.txt": text})
    assert [(each.label, each.convicts, each.evidence.line, each.evidence.node) for each in found.findings] == [
        ("hardware/thermal", True, 1, "n4"),
        ("hardware/thermal", False, 2, "n4"),
    ]
    assert of({"sdr.txt": SENSORS.format(cpu="88 degrees C      | nc", fan="4000 RPM          | ok")}).findings == ()


PRESSURE = "some avg10=90.00 avg60=90.00 avg300=80.00 total=1\nfull avg10={0} avg60={0} avg300={0} total=1\n"


def test_pressure_is_what_stopped_everything():
    assert labels(of({"n3/io.pressure": PRESSURE.format("71.20")})) == ["resource/shared_fs_io"]
    assert labels(of({"psi.txt": "# n3 /proc/pressure/cpu\n" + PRESSURE.format("71.20")})) == ["resource/cpu_throttle"]
    assert of({"n3/io.pressure": PRESSURE.format("20.00")}).findings == ()
    assert of({"n3/memory.pressure": PRESSURE.format("71.20")}).findings == ()


HEALTH = """+---------------------------+----------------------------------------------------------+
| Health Monitor Report                                                                |
+===========================+==========================================================+
| Overall Health            | {word}                                                  |
| GPU                       |                                                          |
| -> 2                      | {word}                                                  |
|    -> Errors              |                                                          |
|       -> NVLink system    | {word}                                                  |
|                           | GPU 2's NvLink link 3 is currently down.                 |
+---------------------------+----------------------------------------------------------+
"""


def test_dcgm_health_convicts_on_failure_and_bears_witness_on_warning():
    finding = only(of({"dcgmi-health.n4.txt": HEALTH.format(word="Failure")}))
    assert (finding.label, finding.detail, finding.convicts, finding.evidence.line) == (
        "hardware/nvlink",
        "gpu=2",
        True,
        8,
    )
    assert not only(of({"d.txt": HEALTH.format(word="Warning")})).convicts
    assert of({"d.txt": HEALTH.format(word="Healthy")}).findings == ()


def test_dcgm_diag_names_the_test_that_failed():
    text = "| Diagnostic                | Result                                         |\n|-----  Hardware  ----------+---|\n| PCIe                      | Pass - All                                     |\n| Targeted Power            | Fail - GPU: 3                                  |\n"
    finding = only(of({"diag.txt": text}))
    assert (finding.label, finding.detail) == ("hardware/power", "gpu=3")


def test_edac_util_since_boot_is_a_hint_and_growth_convicts():
    text = "mc0: csrow0: CPU_SrcID#0_MC#0_Chan#0_DIMM#0: {} Uncorrected Errors\nmc0: 0 Uncorrected Errors with no DIMM info\n"
    assert [(each.label, each.convicts) for each in of({"edac-util.n3.txt": text.format(1)}).findings] == [
        ("hardware/host_memory", False)
    ]
    grown = of({"edac-util.n3.before.txt": text.format(1), "edac-util.n3.after.txt": text.format(2)})
    assert [(each.detail, each.convicts) for each in grown.findings] == [("ue_count=+1", True)]
    assert of({"edac-util.n3.txt": text.format(0)}).findings == ()


DESCRIBE = """Name:             train-worker-0
Namespace:        ml
Priority:         0
Node:             gpu-7/10.0.0.7
Status:           Failed
Containers:
  pytorch:
    Last State:     Terminated
      Reason:       {reason}
      Exit Code:    137
Events:
  Type     Reason     Age   From               Message
  ----     ------     ----  ----               -------
  Normal   Pulled     5m    kubelet            Container image "x" already present on machine
  Warning  {event}
"""


def test_kubectl_describe_tells_states_and_events():
    text = DESCRIBE.format(
        reason="OOMKilled", event="Preempted  2m (x3 over 5m)  default-scheduler  Preempted by pod 5f on node gpu-7"
    )
    assert told(of({"describe.txt": text})) == [
        ("resource/host_oom", "gpu-7", "describe.txt", 9),
        ("scheduler/preempted", "gpu-7", "describe.txt", 15),
    ]
    text = DESCRIBE.format(reason="Error", event="BackOff  1m  kubelet  Back-off restarting")
    assert told(of({"describe.txt": text})) == [("unknown/unknown", "gpu-7", "describe.txt", 10)]
    part = text[text.index("    Last State:") :]
    assert [row[0] for row in told(of({"part.txt": part}))] == ["unknown/unknown"]
    assert of({"describe.txt": text.replace("Exit Code:    137", "Exit Code:    0")}).findings == ()
