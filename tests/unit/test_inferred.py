"""What several findings say together."""

from __future__ import annotations

from io import BytesIO

import pytest

from tests.unit.evidence import CATALOGUE, END, kernel, log, watchdog, xid
from wheeltapper.diagnosis.advice import Action, advise
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.diagnosis.model import Diagnosis
from wheeltapper.evidence import Finding, Source
from wheeltapper.scan import scan_log

FATAL = "{1}[Hardware Error]: event severity: fatal"
RECOVERABLE = "{1}[Hardware Error]: event severity: recoverable"
AER = "pcieport 0000:00:03.0: PCIe Bus Error: severity=Corrected, type=Data Link Layer, (Transmitter ID)"
NO_HANDLE = "Unable to determine the device handle for GPU0000:65:00.0: Unknown Error"
LOST = "Lustre: scr1-OST001b-osc-ff37: Connection to scr1-OST001b (at 10.9.4.27@o2ib) was lost; in progress operations using this service will wait for recovery to complete"
RESTORED = "Lustre: scr1-OST001b-osc-ff37: Connection restored to 10.9.4.28@o2ib (at 10.9.4.28@o2ib)"


def of(*groups: list[Finding], window: float = 1800.0) -> Diagnosis:
    return diagnose([each for group in groups for each in group], None, window_s=window)


def waited(rank: int, *, op: str = "ALLREDUCE", size: int = 8, seq: int = 104233) -> str:
    return (
        f"[rank{rank}]:[E] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, "
        f"OpType={op}, NumelIn={size}, NumelOut={size}, Timeout(ms)=600000) ran for 600029 milliseconds before timing out."
    )


def test_ranks_in_different_collectives_are_a_deadlock_of_the_program():
    answer = of(log(*(waited(rank) for rank in (0, 1, 2, 4)), waited(3, size=5)))
    assert (answer.label, answer.symptom, advise(answer)) == (
        "software/deadlock",
        "network/nccl_timeout",
        Action.NO_REQUEUE,
    )
    assert answer.root is not None
    assert answer.root.evidence.line == 5
    assert "rank 3" in answer.sentence


@pytest.mark.parametrize(
    "lines",
    [
        [waited(0), waited(1), waited(2)],
        [waited(0), waited(1, seq=7, size=5), waited(2)],
        [waited(0, op="SEND"), waited(1, op="RECV"), waited(2, op="SEND", size=3)],
        [waited(0), waited(1, size=5)],
    ],
    ids=["all alike", "other sequence numbers", "point to point", "one against one"],
)
def test_ranks_that_differ_by_nature_are_no_deadlock(lines):
    assert of(log(*lines)).label == "network/nccl_timeout"


def nccl(host: str, network: str, *more: str) -> list[str]:
    said = [f"NCCL INFO {each}" for each in (*more, f"Using network {network}")]
    return [f"{host}:61002:61090 [0] {each}" for each in said]


def test_a_node_without_its_adapters_is_named():
    answer = of(
        log(
            *nccl("d1", "IB"),
            *nccl("d4", "Socket", "NET/IB : No device found."),
            *nccl("d2", "IB"),
            *watchdog(0, 1),
        )
    )
    assert (answer.label, [each.node for each in answer.suspects]) == ("network/topology", ["d4"])
    assert advise(answer) is Action.REQUEUE_EXCLUDE_NODE


def test_a_node_with_another_network_plugin_drifted_from_the_others():
    answer = of(
        log(*nccl("a", "IBext_v8"), *nccl("b", "IB", "NET/Plugin: No plugin found (libnccl-net.so)"), *watchdog(0))
    )
    assert answer.label == "software/env_mismatch"
    assert answer.root is not None
    assert "No plugin found" in answer.root.evidence.text


def test_a_network_that_all_nodes_share_or_that_nothing_waited_for_explains_nothing():
    alike = [*nccl("a", "Socket", "NET/IB : No device found."), *nccl("b", "Socket", "NET/IB : No device found.")]
    assert of(log(*alike, *watchdog(0))).label == "network/nccl_timeout"
    assert of(log(*nccl("a", "IB"), *nccl("b", "Socket"))).root is None


@pytest.mark.parametrize(
    ("severity", "section", "label", "action"),
    [
        (RECOVERABLE, "memory error", "hardware/host_memory", Action.DRAIN_NODE),
        (FATAL, "PCIe error", "hardware/pcie", Action.DRAIN_NODE),
        (FATAL, "general processor error", "hardware/host_cpu", Action.DRAIN_NODE),
        (FATAL, "unknown, 12345", "hardware/host_cpu", Action.REQUEUE_EXCLUDE_NODE),
    ],
)
def test_the_section_of_a_firmware_report_says_what_was_hit(severity, section, label, action):
    report = kernel(severity, sequence=4) + kernel(f"{{1}}[Hardware Error]:  section_type: {section}", sequence=6)
    answer = of(report)
    assert (answer.label, advise(answer)) == (label, action)


def test_a_pcie_error_that_was_recovered_from_is_only_a_witness():
    report = kernel(RECOVERABLE, sequence=4) + kernel("{1}[Hardware Error]:  section_type: PCIe error", sequence=6)
    assert of(report).root is None


def test_an_xid_79_whose_gpu_the_driver_calls_lost_is_a_lost_gpu():
    lost = kernel("NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.", sequence=2)
    assert of(xid(79), lost).label == "hardware/gpu_lost"
    assert of(xid(79)).label == "hardware/gpu_xid"


def test_a_gpu_that_nvml_cannot_open_wants_inspection_only_while_its_slot_is_flooded():
    flood = [each for number in range(5) for each in kernel(AER, sequence=number)]
    assert advise(of(log(NO_HANDLE))) is Action.REQUEUE_EXCLUDE_NODE
    answer = of(log(NO_HANDLE), flood)
    assert (answer.label, advise(answer), answer.confirmed) == ("hardware/gpu_lost", Action.DRAIN_NODE, False)
    assert of(flood).root is None


BARRIER = "jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: PjRT_Client_Connect."


@pytest.mark.parametrize(
    ("peer", "missing", "label", "action"),
    [
        ("127.0.0.1", tuple(range(15, 0, -1)), "software/config", Action.NO_REQUEUE),
        ("10.0.0.7", (3, 1, 2), "network/rendezvous", Action.REQUEUE),
        ("127.0.0.1", (2,), "network/rendezvous", Action.REQUEUE),
    ],
    ids=["nobody came to a loopback address", "the address of a host", "one task is missing"],
)
def test_a_coordinator_that_nobody_can_reach_is_a_matter_of_configuration(peer, missing, label, action):
    tasks = [f"/job:jax_worker/replica:0/task:{number}" for number in missing]
    about = f'"description":"Error received from peer ipv4:{peer}:29200","grpc_message":"Barrier timed out."'
    answer = of(log(BARRIER, *tasks, ":{" + about + "}"))
    assert (answer.label, advise(answer)) == (label, action)


def oom(wanted: str, unused: str) -> str:
    return (
        f"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate {wanted}. GPU 2 has a total capacty of "
        f"23.69 GiB of which 118.56 MiB is free. Of the allocated memory 12.94 GiB is allocated by PyTorch, and {unused} "
        "is reserved by PyTorch but unallocated."
    )


@pytest.mark.parametrize(
    ("line", "label"),
    [
        (oom("1.58 GiB", "10.12 GiB"), "resource/gpu_memory_fragmentation"),
        (oom("1.58 GiB", "141.36 MiB"), "software/oom"),
        (oom("20.00 MiB", "300.00 MiB"), "software/oom"),
        (
            "RuntimeError: CUDA out of memory. Tried to allocate 2.93 GiB (GPU 0; 11.17 GiB total capacity; 5.54 GiB already allocated; 2.22 GiB free; 8.52 GiB reserved in total by PyTorch)",
            "resource/gpu_memory_fragmentation",
        ),
        ("RuntimeError: CUDA error: out of memory", "software/oom"),
    ],
)
def test_memory_that_lies_reserved_and_unused_is_fragmentation(line, label):
    assert of(log(line)).label == label


def packing(percent: int) -> str:
    return f"Sample Packing (num_proc=64):  {percent}%|#######   | 640000/900000 [36:41<14:59, 291.8 examples/s]"


def test_data_still_in_preparation_explains_the_very_first_timeout():
    answer = of(log(packing(12), packing(71), waited(1, seq=2), waited(2, seq=2)))
    assert answer.label == "software/dataloader"


def test_data_that_was_ready_or_a_later_timeout_explains_nothing():
    assert of(log(packing(71), packing(100), waited(1, seq=2))).label == "network/nccl_timeout"
    assert of(log(packing(71), waited(1, seq=5000))).label == "network/nccl_timeout"


def test_a_file_server_that_was_lost_while_ranks_waited_is_the_cause():
    answer = of(kernel(LOST, at=END - 400), log(*watchdog(0)))
    assert (answer.label, answer.symptom) == ("resource/shared_fs_io", "network/nccl_timeout")
    assert advise(answer) is Action.REQUEUE


def test_a_file_server_that_came_back_or_that_nothing_waited_for_is_not():
    stamped = f"1970-01-01 02:46:40 {watchdog(0)[0]}"
    back = kernel(LOST, at=END - 1500) + kernel(RESTORED, at=END - 1400, sequence=2)
    assert of(back, log(stamped)).label == "network/nccl_timeout"
    assert of(kernel(LOST, at=END - 400), log("ValueError: shapes do not match")).label == "software/user_code"


def test_the_window_reaches_back_as_far_as_the_slowest_timeout():
    slow = waited(0).replace("600029", "3600029")
    stamped = f"1970-01-01 02:46:40 {slow}"
    assert of(kernel(LOST, at=END - 3500), log(stamped)).label == "resource/shared_fs_io"


def test_an_exception_that_the_log_goes_on_from_was_caught():
    answer = of(
        log(
            "1970-01-01 01:00:00 step 1",
            "KeyError: 'sample 7'",
            "1970-01-01 02:46:00 step 900",
            "ValueError: shapes do not match",
        )
    )
    assert answer.root is not None
    assert answer.root.evidence.line == 4


def test_an_exception_after_a_timeout_is_its_echo_unless_its_rank_never_timed_out():
    echo = of(log(*watchdog(0, 1), "[rank1]: RuntimeError: the communicator is gone"))
    assert echo.label == "network/nccl_timeout"
    cause = of(log(*watchdog(0, 1), "[rank3]: KeyError: 'tokens'"))
    assert cause.label == "software/user_code"


def test_only_lines_of_our_own_job_count_in_the_controllers_log():
    text = (
        b"[2026-06-18T13:51:30.820] Time limit exhausted for JobId=58170\n"
        b"[2026-06-18T13:59:24.301] JobId=58213 timed out, the job is at or exceeds assoc 318(x) group max tres minutes\n"
    )
    controller = list(scan_log(BytesIO(text), CATALOGUE, file="slurmctld.log", source=Source.SCHEDULER))
    step = "slurmstepd: error: *** STEP 58213.0 ON a3 CANCELLED AT 2026-06-18T13:59:24 DUE TO TIME LIMIT ***"
    assert of(controller, log(step)).label == "scheduler/quota"
    other = step.replace("58213", "58170")
    assert of(controller, log(other)).label == "scheduler/time_limit"


def introduced(rank: int, host: str) -> str:
    return f"{host}:1:2 [0] NCCL INFO comm 0x7c rank {rank} nranks 4 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x7a - Init START"


def test_a_silent_rank_is_named_with_its_node():
    ranks = [introduced(0, "a"), introduced(1, "a"), introduced(2, "b.cluster"), introduced(3, "b.cluster")]
    answer = of(log(*ranks, *watchdog(0, 1, 3)))
    assert [(each.rank, each.node) for each in answer.suspects] == [(2, "b")]
    assert advise(answer) is Action.REQUEUE_EXCLUDE_NODE


def test_a_rank_that_never_spoke_runs_where_its_neighbours_do():
    ranks = [introduced(0, "a"), introduced(1, "a"), introduced(3, "a"), introduced(4, "b")]
    assert [each.node for each in of(log(*ranks, *watchdog(0, 1, 3))).suspects] == ["a"]
    assert [each.node for each in of(log(*ranks[:2], ranks[3], *watchdog(0, 1, 3))).suspects] == [None]


def test_the_story_of_a_broken_drive_begins_with_its_first_line():
    timeout = kernel("nvme nvme0: I/O 12 QID 4 timeout, reset controller", sequence=1)
    gone = kernel("nvme nvme0: Removing after probe failure status: -19", sequence=2)
    answer = of(timeout, gone)
    assert answer.root is not None
    assert (answer.root.evidence.sequence, answer.confirmed, advise(answer)) == (1, True, Action.DRAIN_NODE)


def test_a_milder_fault_of_the_same_gpu_does_not_take_the_name_of_the_grave_one():
    assert of(xid(94, sequence=1), xid(95, sequence=2)).detail == "xid=95"


DONE = "{'train_runtime': 5021.3, 'train_samples_per_second': 12.1, 'epoch': 3.0}"
LINK_DOWN = "mlx5_core 0000:65:00.0 ib0: Link down"
LINK_UP = "mlx5_core 0000:65:00.0 ib0: Link up"


def test_what_a_run_survived_to_its_end_interrupted_nothing():
    for trouble in ("ValueError: shapes do not match", "RuntimeError: CUDA out of memory. Tried to allocate 2.93 GiB"):
        survived = of(log(trouble, DONE))
        assert (survived.root, advise(survived)) == (None, Action.NONE)
        assert of(log(DONE, trouble)).root is not None


def test_a_passing_trouble_of_the_node_did_not_interrupt_a_run_that_ended_well():
    assert of(kernel(LINK_DOWN), log(DONE)).root is None
    assert of(kernel(LINK_DOWN), log(*watchdog(0))).label == "network/link_down"
    assert of(xid(79), log(DONE)).label == "hardware/gpu_xid"


def test_a_link_that_came_back_while_nothing_waited_is_no_interruption():
    assert of(kernel(LINK_DOWN, sequence=1), kernel(LINK_UP, sequence=2)).root is None
    assert of(kernel(LINK_UP, sequence=1), kernel(LINK_DOWN, sequence=2)).label == "network/link_down"


def test_what_a_log_goes_on_from_for_long_only_to_fail_of_something_else_was_survived():
    early, late = "1970-01-01 01:00:00 step 1", "1970-01-01 02:46:00 step 900"
    missing, full = "ModuleNotFoundError: No module named 'apex'", "OSError: [Errno 28] No space left on device"
    assert of(log(early, missing, late, full)).label == "resource/disk_full"
    assert of(log(late, missing, full)).label == "software/env_mismatch"
    again = of(log(early, full, late, full))
    assert again.root is not None
    assert (again.label, again.root.evidence.line) == ("resource/disk_full", 2)
