"""Every kind of the taxonomy can be told from lines alone, and each asks for what the policy's table says."""

from __future__ import annotations

import io
from datetime import timezone

import pytest

from tests.unit.evidence import CATALOGUE, END, kernel, log, watchdog, xid
from wheeltapper import labels
from wheeltapper.diagnosis.advice import Action, advise
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.evidence import Finding, Source
from wheeltapper.scan import scan_log

DRAIN, EXCLUDE, AGAIN, NOT_AGAIN = (
    Action.DRAIN_NODE,
    Action.REQUEUE_EXCLUDE_NODE,
    Action.REQUEUE,
    Action.NO_REQUEUE,
)


def controller(*lines: str) -> list[Finding]:
    text = "".join(f"{line}\n" for line in lines).encode()
    return list(scan_log(io.BytesIO(text), CATALOGUE, file="slurmctld.log", source=Source.SCHEDULER, zone=timezone.utc))


def cancelled(why: str) -> list[Finding]:
    return log(f"slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 1970-01-01T02:46:30 DUE TO {why} ***")


OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of "
    "which 1.00 GiB is free. Of the allocated memory 20.00 GiB is allocated by PyTorch, and {unused} is reserved by "
    "PyTorch but unallocated."
)
LOST = "NVRM: GPU 0000:18:00.0: GPU has fallen off the bus."
FATAL_AER = "pcieport 0000:17:01.0: AER: Uncorrected (Fatal) error received: 0000:18:00.0"
MISMATCH = "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: X"
LUSTRE = "Lustre: s-OST001b-osc-ff: Connection to s-OST001b (at 10.9.4.27@o2ib) was lost; in progress operations using this service will wait for recovery to complete"
EVICTED = "LustreError: 167-0: s-MDT0001-mdc-ff: This client was evicted by s-MDT0001; in progress operations using this service will fail."
BUS_ERROR = "RuntimeError: DataLoader worker (pid 20417) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory."
NO_ADAPTER = [
    "d1:1:2 [0] NCCL INFO Using network IB",
    "d2:1:2 [0] NCCL INFO NET/IB : No device found.",
    "d2:1:2 [0] NCCL INFO Using network Socket",
    *watchdog(0),
]

CASES = [
    ("hardware/gpu_xid", DRAIN, xid(119)),
    ("hardware/gpu_lost", DRAIN, kernel(LOST)),
    ("hardware/ecc_uncorrectable", DRAIN, xid(48)),
    ("hardware/nvlink", DRAIN, xid(74)),
    ("hardware/pcie", DRAIN, kernel(FATAL_AER)),
    (
        "hardware/thermal",
        EXCLUDE,
        kernel("CPU0: Core temperature above threshold, cpu clock throttled (total events = 9)"),
    ),
    ("hardware/power", DRAIN, xid(54)),
    ("hardware/host_cpu", DRAIN, kernel("mce: [Hardware Error]: CPU 0: Machine Check Exception: 5 Bank 4: b2000000")),
    ("hardware/host_memory", DRAIN, kernel("EDAC MC3: 1 UE memory read error on CPU_SrcID#0_MC#3_Chan#0_DIMM#0 (x)")),
    ("hardware/storage", DRAIN, kernel("nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0x10")),
    ("hardware/nic", DRAIN, kernel("mlx5_core 0000:65:00.0: poll_health:1049:(pid 0): device's health compromised")),
    ("hardware/node_down", EXCLUDE, controller("[x] error: Nodes rk07 not responding, setting DOWN")),
    ("software/oom", NOT_AGAIN, log(OOM.format(unused="100.00 MiB"))),
    ("software/env_mismatch", NOT_AGAIN, log("ModuleNotFoundError: No module named 'apex'")),
    ("software/framework_crash", NOT_AGAIN, log("Fatal Python error: Segmentation fault")),
    ("software/user_code", NOT_AGAIN, log("ValueError: shapes do not match")),
    ("software/cuda_fault", NOT_AGAIN, xid(13)),
    ("software/dataloader", NOT_AGAIN, log("datasets.exceptions.DatasetGenerationError: An error occurred")),
    ("software/deadlock", NOT_AGAIN, log(MISMATCH)),
    ("software/checkpoint", NOT_AGAIN, log("RuntimeError: PytorchStreamReader failed reading zip archive")),
    ("software/config", NOT_AGAIN, log("train.py: error: unrecognized arguments: --lr-decay")),
    ("network/nccl_timeout", AGAIN, log(*watchdog(0))),
    ("network/link_down", EXCLUDE, kernel("mlx5_core 0000:65:00.0 ib0: Link down") + log(*watchdog(0))),
    (
        "network/transport",
        AGAIN,
        log("NCCL WARN NET/IB : Got completion with error 12, opcode 0, len 0, vendor err 129"),
    ),
    ("network/socket", AGAIN, log("NCCL WARN Connect to 10.148.3.247<56821> failed : Connection refused")),
    ("network/rendezvous", AGAIN, log("RendezvousConnectionError: The connection to the C10d store has failed.")),
    ("network/dns", AGAIN, log("socket.gaierror: [Errno -3] Temporary failure in name resolution")),
    ("network/remote_storage", EXCLUDE, kernel(EVICTED) + log(*watchdog(0))),
    ("network/topology", EXCLUDE, log(*NO_ADAPTER)),
    ("resource/host_oom", NOT_AGAIN, kernel("Out of memory: Killed process 4242 (python3) total-vm:9000000kB")),
    ("resource/shm", NOT_AGAIN, log(BUS_ERROR)),
    ("resource/disk_full", NOT_AGAIN, log("OSError: [Errno 28] No space left on device")),
    ("resource/fd_limit", NOT_AGAIN, log("OSError: [Errno 24] Too many open files")),
    ("resource/pids_limit", NOT_AGAIN, log("RuntimeError: can't start new thread")),
    ("resource/memlock", NOT_AGAIN, log("NCCL WARN Call to ibv_reg_mr failed with error Cannot allocate memory")),
    ("resource/gpu_memory_fragmentation", NOT_AGAIN, log(OOM.format(unused="50.00 GiB"))),
    ("resource/shared_fs_io", AGAIN, kernel(LUSTRE, at=END - 100) + log(*watchdog(0))),
    (
        "resource/memory_bandwidth",
        AGAIN,
        kernel("x86/split lock detection: #DB: python3/42 took a bus_lock trap at 0x7f"),
    ),
    ("resource/cpu_throttle", AGAIN, log("[FIRING:1] CPUThrottlingHigh: 87% throttling of CPU in namespace ml")),
    ("scheduler/time_limit", NOT_AGAIN, cancelled("TIME LIMIT")),
    ("scheduler/preempted", AGAIN, cancelled("PREEMPTION")),
    ("scheduler/evicted", AGAIN, log("3m  Warning  Evicted  pod/t-0  The node was low on resource: memory.")),
    (
        "scheduler/cancelled",
        NOT_AGAIN,
        log("slurmstepd: error: *** STEP 77.0 ON r36 CANCELLED AT 2026-03-08T08:41:12 ***"),
    ),
    (
        "scheduler/quota",
        NOT_AGAIN,
        controller("[x] JobId=12 timed out, the job is at or exceeds assoc 318(x) group max"),
    ),
    ("scheduler/maintenance", AGAIN, controller("[x] update_node: node rk12 state set to DOWN")),
]

FROM_COUNTERS = {
    "hardware/ecc_remap",
    "network/link_errors",
    "network/congestion",
    "resource/pcie_bandwidth",
}
"""Kinds that no line of a log states: they are read from counters, and tested with their readers."""


@pytest.mark.parametrize(("label", "action", "findings"), CASES, ids=[case[0] for case in CASES])
def test_kind_is_reachable(label, action, findings):
    answer = diagnose(findings, None, window_s=1800.0)
    assert (answer.label, advise(answer)) == (label, action)
    assert answer.root is not None
    assert answer.root.evidence.text


def test_every_kind_has_a_case():
    told = {label for label, _action, _findings in CASES}
    assert told | FROM_COUNTERS == labels.ALL - {labels.UNKNOWN}
    assert not told & FROM_COUNTERS


def test_nothing_but_an_echo_is_unknown():
    answer = diagnose(log("Killing subprocess 4243"), None, window_s=1800.0)
    assert (answer.label, advise(answer)) == (labels.UNKNOWN, Action.REQUEUE)


@pytest.mark.parametrize(
    "line", ["Killed by signal -9: failed (exitcode: -9) local_rank: 2 (pid: 7)", "Possible persistent error!"]
)
def test_an_end_without_a_reason_is_unknown_and_shows_its_line(line):
    answer = diagnose(log(line), None, window_s=1800.0)
    assert (answer.label, advise(answer)) == (labels.UNKNOWN, Action.REQUEUE)
    assert answer.root is not None
    assert answer.root.evidence.line == 1
