"""An end that nothing explains is "unknown" and names its line; a log that goes on was not interrupted."""

from __future__ import annotations

import pytest

from tests.unit.evidence import kernel, log
from wheeltapper.diagnosis.advice import Action, advise, nothing_happened
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.evidence import Source
from wheeltapper.scan.ending import NEAR

LAST_WORDS = [
    ["srun: error: Unable to create step for job 9120: Unspecified error"],
    ["salloc: error: Job allocation 9120 has been revoked"],
    ["slurmstepd: error: Failed to send MESSAGE_TASK_EXIT: No error"],
    [
        "kite03:700:733 [1] proxy.cc:88 NCCL WARN [Service thread] Could not receive type from localRank 3, res=3, failed"
    ],
    ["(Learner pid=8812, ip=10.9.4.2) The actor died unexpectedly before finishing this task. ActorDiedError"],
    ["launch.sh: worker 3 exited with exit code 17"],
    ["error: command terminated with exit code 139"],
    ["Traceback (most recent call last):", '  File "fit.py", line 8, in <module>', "    go()", "vendor.Halt: no more"],
    ["terminate called after throwing an instance of 'c10::Error'", "Aborted (core dumped)"],
    ["Killed"],
]

GOES_ON = [
    ["WARNING: sample 7 was skipped", "saved the model to /out/last"],
    ["step 12: loss 1.99"],
    ["connected on the second attempt", "Saved, all done"],
    [" 12%|#2        | 120/1000 [01:00<07:20,  2.0it/s]"],
]

STARTS = [
    "slurmstepd: error: couldn't chdir to `/w/kim': No such file or directory: going to /tmp instead",
    "kite03:700:733 [1] NCCL WARN NCCL_SOCKET_IFNAME set by environment to bond0",
    "stage 1 exited with exit code 0",
    "retrying, the hub returned status 503",
]


@pytest.mark.parametrize("said", LAST_WORDS, ids=lambda said: said[0][:50])
def test_an_end_without_a_cause_is_unknown_and_names_its_line(said):
    answer = diagnose(log("step 11: loss 2.01", *said), None, window_s=1800.0)
    assert answer.label == "unknown/unknown"
    assert not nothing_happened(answer)
    assert advise(answer) is Action.REQUEUE


@pytest.mark.parametrize("after", GOES_ON, ids=lambda after: after[0][:20])
@pytest.mark.parametrize(
    "said", [LAST_WORDS[2], LAST_WORDS[3], LAST_WORDS[5], LAST_WORDS[7]], ids=lambda said: said[0][:20]
)
def test_a_log_that_goes_on_was_not_interrupted(said, after):
    assert nothing_happened(diagnose(log("step 11: loss 2.01", *said, *after), None, window_s=1800.0))


@pytest.mark.parametrize("said", STARTS)
def test_warnings_at_the_start_are_no_end(said):
    assert nothing_happened(diagnose(log("set up", said), None, window_s=1800.0))


def test_an_error_long_before_the_end_is_no_last_word():
    quiet = ["the cluster is quiet"] * (NEAR // 20)
    assert nothing_happened(diagnose(log(LAST_WORDS[5][0], *quiet), None, window_s=1800.0))


def test_a_cause_outranks_words_that_say_only_that_it_failed():
    said = [
        "worker 2 exited with exit code 9",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB.",
    ]
    answer = diagnose(log("step 11: loss 2.01", *said), None, window_s=1800.0)
    assert answer.label == "software/oom"


def test_the_task_that_fell_silent_is_the_suspect():
    said = "E0203 coordination.cc:91] UNAVAILABLE: /job:jax_worker/replica:0/task:37 heartbeat timeout. This indicates that the remote task has failed, got preempted, or crashed unexpectedly."
    answer = diagnose(log("step 11: loss 2.01", said), None, window_s=1800.0)
    assert answer.label == "unknown/unknown"
    assert [each.rank for each in answer.suspects] == [37]


def test_the_node_that_refused_its_tasks_is_the_suspect():
    said = "srun: error: Task launch for StepId=9120.0 failed on node kite03: Job credential expired"
    answer = diagnose(log("set up", said), None, window_s=1800.0)
    assert answer.label == "unknown/unknown"
    assert [each.node for each in answer.suspects] == ["kite03"]


def test_last_words_without_a_name_point_at_the_echo_that_the_log_holds():
    echo = (
        "torch.distributed.DistBackendError: NCCL error in: x.cpp:1, remote process exited or there was a network error"
    )
    answer = diagnose(log("step 11: loss 2.01", "Traceback (most recent call last):", echo), None, window_s=1800.0)
    assert (answer.label, answer.root.evidence.line if answer.root else None) == ("unknown/unknown", 3)


def test_a_name_that_was_never_found_is_blamed_from_the_first_try():
    tried = (
        "[W socket.cpp:601] [c10d] The IPv4 network addresses of (n1, 29500) cannot be retrieved (gai error: -3 - x)."
    )
    failed = "socket.gaierror: [Errno -3] Temporary failure in name resolution"
    answer = diagnose(log(tried, tried, failed), None, window_s=1800.0)
    assert (answer.label, answer.root.evidence.line if answer.root else None) == ("network/dns", 1)
    assert nothing_happened(diagnose(log(tried, "step 1: loss 2.0"), None, window_s=1800.0))


def test_a_step_that_srun_ends_after_a_failed_task_was_cancelled_by_nobody():
    killed = "srun: error: c4: task 2: Killed"
    ended = "srun: Terminating StepId=4411.0"
    cancelled = "slurmstepd: error: *** STEP 4411.0 ON c3 CANCELLED AT 2025-06-11T03:44:10 ***"
    assert diagnose(log(killed, ended, cancelled), None, window_s=1800.0).label == "unknown/unknown"
    assert diagnose(log(cancelled, killed), None, window_s=1800.0).label == "scheduler/cancelled"


def test_a_run_that_went_to_its_end_leaves_no_symptom_of_its_scheduler():
    done = log("step 11: loss 2.01", "[2026-05-01 10:00:00] Training completed")
    trouble = log("9m Warning FailedMount pod/t-0 MountVolume.SetUp failed for volume d", source=Source.SCHEDULER)
    assert nothing_happened(diagnose([*trouble, *done], None, window_s=1800.0))
    assert not nothing_happened(diagnose(trouble, None, window_s=1800.0))


def test_a_link_that_came_back_is_nothing_where_no_log_tells_of_a_failure():
    links = [
        *kernel("infiniband mlx5_2: Port: 1 Link DOWN", sequence=1),
        *kernel("infiniband mlx5_2: Port: 1 Link ACTIVE", sequence=2),
    ]
    assert nothing_happened(diagnose(links, None, window_s=1800.0))
    assert not nothing_happened(diagnose(links[:1], None, window_s=1800.0))
