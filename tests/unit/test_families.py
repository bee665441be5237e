"""Families of wordings: the sibling of a known wording means what the known one means."""

from __future__ import annotations

import pytest

from tests.unit.evidence import log
from wheeltapper.diagnosis.advice import nothing_happened
from wheeltapper.diagnosis.diagnose import diagnose

WARN = "tern07:51200:51288 [2] NCCL WARN "

SIBLINGS = [
    # NCCL's connections, by version
    ("network/socket", f"{WARN}Call to connect to 10.9.4.2<38123> failed : Connection timed out"),
    ("network/socket", f"{WARN}Call to connect failed : Network is unreachable"),
    ("network/socket", f"{WARN}Connect to 10.9.4.2<38123> failed : Host is unreachable"),
    ("network/socket", f"{WARN}Net : Connect to fe80::1%bond0<38123> failed : Cannot assign requested address"),
    (
        "network/socket",
        f"{WARN}socketPollConnect: connect to 10.9.4.2<38123> returned Connection refused, exceeded error retry count after 34 attempts",
    ),
    ("network/socket", f"{WARN}socketPollConnect returned No route to host, exceeded error retry count (35)"),
    ("network/socket", f"{WARN}socketFinalizeConnect: Connect to 10.9.4.2<38123> failed : Connection reset by peer"),
    ("network/socket", f"{WARN}Call to recv from 10.9.4.2<38123> failed : Connection reset by peer"),
    # libfabric beside InfiniBand
    (
        "network/transport",
        f"{WARN}NET/OFI Request 0x7f0c0 completed with error. RC: 113. Error: 4104 (unknown error). Completed length: 0, Request: x",
    ),
    ("network/transport", f"{WARN}NET/OFI Unable to retrieve address from endpoint. RC: -2, Error: No such file"),
    ("network/transport", f"{WARN}NET/OFI Couldn't open a fabric access domain. RC: -12, ERROR: Cannot allocate"),
    ("network/transport", f"{WARN}NET/OFI fi_getinfo failed: No data available"),
    # NCCL's own words for what the program did
    (
        "software/deadlock",
        f"{WARN}Mismatched collective detected, please check the collective calls at and around rank 3.",
    ),
    ("software/deadlock", "torch.distributed.DistBackendError: NCCL error: collective mismatch error"),
    ("software/config", "Duplicate GPU detected : rank 5 and rank 1 both on CUDA device 4a000"),
    # CUDA's driver is too old
    (
        "software/env_mismatch",
        "RuntimeError: CUDA driver initialization failed: driver too old, CUDA driver version is insufficient for CUDA runtime version",
    ),
    ("software/env_mismatch", "RuntimeError: The NVIDIA driver on your system is too old (found version 11040)."),
    ("software/env_mismatch", "error in kernel launch: cudaErrorInsufficientDriver"),
    ("software/env_mismatch", f"{WARN}Cuda failure 'CUDA driver version is insufficient for CUDA runtime version'"),
    # Slurm
    ("hardware/node_down", "salloc: error: Node failure on tern07"),
    (
        "scheduler/preempted",
        "slurmstepd: error: *** JOB 4410 ON tern07 CANCELLED AT 2026-02-03T04:05:06 DUE TO JOB REQUEUE ***",
    ),
    # submitit and clouds
    (
        "scheduler/preempted",
        "submitit WARNING (2026-02-03 04:05:06,001) - Bypassing signal SIGCONT - this job is preempted.",
    ),
    (
        "scheduler/time_limit",
        "submitit WARNING (2026-02-03 04:05:06,001) - Job has timed-out. Ran 720 minutes out of requested 720 minutes.",
    ),
    # Ray, behind its prefixes
    (
        "hardware/node_down",
        "(TrainTrainable pid=8812, ip=10.9.4.2) ray.exceptions.ActorDiedError: The actor is dead because its node has died. Node Id: 77aa",
    ),
    ("hardware/node_down", "(raylet, ip=10.9.4.2) The actor died because its node has died."),
    (
        "scheduler/preempted",
        "(Learner(rank=1) pid=8812, ip=10.9.4.2) ray.exceptions.ActorDiedError: The actor died because its node was preempted.",
    ),
]

RAISED = [
    ("network/rendezvous", "torch.distributed.elastic.rendezvous.api.RendezvousClosedError"),
    (
        "network/socket",
        "(raylet) gcs_rpc_client.h:179: Failed to connect to GCS at address 10.9.4.2:6379 within 5 seconds.",
    ),
    ("network/remote_storage", "cp: error reading '/proj/set/a': Input/output error"),
    ("network/rendezvous", "RuntimeError: Socket Timeout"),
    (
        "network/rendezvous",
        "RuntimeError: [5] is setting up its communicator from [0] by key '0', but store->get('0') got error: Socket Timeout",
    ),
    (
        "network/socket",
        "RuntimeError: [5] is setting up its communicator from [0] by key '0', but store->get('0') got error: Connection reset by peer",
    ),
    ("network/socket", "  what():  Connection refused"),
    ("network/rendezvous", "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0"),
    ("network/socket", "torch.distributed.DistNetworkError: Connection reset by peer"),
    ("network/socket", "torch.distributed.DistNetworkError: failed to recv, got 0 bytes"),
    ("network/socket", "mylib.remote.PeerFailure: [Errno 104] Connection reset by peer"),
    ("network/socket", "OSError: [Errno 113] No route to host"),
    ("network/socket", "RuntimeError: store.get: Network is unreachable"),
    ("network/socket", "TimeoutError: [Errno 110] Connection timed out"),
    (
        "network/socket",
        "aiohttp.client_exceptions.ClientConnectorError: Cannot connect to host tern01:80 ssl:default [Connection refused]",
    ),
    ("resource/disk_full", "h5py.WriteError: flush of /out/a.h5 failed: No space left on device"),
    ("resource/disk_full", "RuntimeError: cannot write /home/kim/a.pt: Disk quota exceeded"),
    ("resource/fd_limit", "zmq.error.ZMQError: Too many open files"),
    ("resource/host_oom", "RuntimeError: fork failed: Cannot allocate memory"),
    ("network/remote_storage", "OSError: [Errno 116] Stale file handle: '/proj/set/shard-9.tar'"),
    ("network/remote_storage", "OSError: [Errno 5] Input/output error: '/local/cache/shard-9.tar'"),
    ("hardware/storage", "OSError: [Errno 30] Read-only file system: '/local/cache/x'"),
]

OF_THE_PROGRAM = [
    "ValueError: the host answered Connection refused as a label for class 4",
    "KeyError: 'Socket Timeout'",
    "AssertionError: expected 4 ranks",
]


@pytest.mark.parametrize(("label", "said"), SIBLINGS, ids=[f"{label}-{said[-60:]}" for label, said in SIBLINGS])
def test_sibling_is_understood(label, said):
    answer = diagnose(log("step 1", said), None, window_s=1800.0)
    assert answer.label == label
    assert answer.root is not None
    assert answer.root.evidence.line == 2


@pytest.mark.parametrize(("label", "said"), RAISED, ids=[f"{label}-{said[:60]}" for label, said in RAISED])
def test_errno_decides_whatever_the_class_of_the_exception(label, said):
    answer = diagnose(
        log("step 1", "Traceback (most recent call last):", '  File "/venv/lib/a.py", line 3, in get', said),
        None,
        window_s=1800.0,
    )
    assert answer.label == label


LONG = ["quiet"] * 300


@pytest.mark.parametrize(
    ("label", "between"), [("network/socket", []), ("software/user_code", LONG)], ids=["soon", "long after"]
)
def test_an_exception_follows_from_a_connection_that_had_just_broken(label, between):
    said = ["ConnectionResetError: [Errno 104] Connection reset by peer", *between, "RuntimeError: the worker gave up"]
    assert diagnose(log("step 1", *said), None, window_s=1800.0).label == label


def test_a_connection_that_broke_after_the_exception_is_its_echo():
    said = ["ValueError: bad shape", "[rank1]: RuntimeError: Connection reset by peer"]
    assert diagnose(log("step 1", *said), None, window_s=1800.0).label == "software/user_code"


def test_what_nccl_says_after_its_result_code_is_the_cause():
    said = ["ncclInvalidUsage: This usually reflects invalid usage.", "Last error:", "Mismatched collective detected"]
    answer = diagnose(log("step 1", *said), None, window_s=1800.0)
    assert (answer.label, answer.root and answer.root.evidence.line) == ("software/deadlock", 4)


RETRY = f"{WARN.replace('WARN', 'INFO')}socketPollConnect: connect to 10.9.4.2<38123> returned Connection refused, retrying (3/34)"
NO_OFI = f"{WARN}NET/OFI initialization failed, RC: -61"


@pytest.mark.parametrize(("said", "label"), [(RETRY, "network/socket"), (NO_OFI, "network/transport")])
def test_trouble_of_a_start_counts_only_where_the_log_does_not_go_on(said, label):
    assert diagnose(log("set up", said), None, window_s=1800.0).label == label
    assert nothing_happened(diagnose(log("set up", said, "step 1: loss 2.5"), None, window_s=1800.0))


@pytest.mark.parametrize("said", OF_THE_PROGRAM)
def test_words_that_an_exception_only_quotes_decide_nothing(said):
    answer = diagnose(log("step 1", "Traceback (most recent call last):", said), None, window_s=1800.0)
    assert answer.label == "software/user_code"
