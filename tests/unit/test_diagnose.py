"""The rules of diagnosis, one test each."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from tests.unit.evidence import END, kernel, log, watchdog, xid
from tests.unit.make import attempt
from wheeltapper import codec
from wheeltapper.attempt import Attempt, Ending
from wheeltapper.diagnosis import words
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.diagnosis.model import Diagnosis

WINDOW = 1800.0
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
EXCEPTION = "ValueError: shapes do not match"
RESET = "n1:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n2<4133>"
SLURM_OOM = "slurmstepd: error: Detected 1 oom_kill event in StepId=12.0. Some of the step tasks have been OOM Killed."
TIME_LIMIT = "slurmstepd: error: *** JOB 12 ON n1 CANCELLED AT 1970-01-01T02:46:30 DUE TO TIME LIMIT ***"
LINK_DOWN = "mlx5_core 0000:65:00.0 ib0: Link down"
LINK_UP = "mlx5_core 0000:65:00.0 ib0: Link up"


def ended(how: Ending = Ending.FAILED, **changes) -> Attempt:
    return attempt(ending=how, start=END - 7200, end=END, **changes)


def of(*findings, how: Ending = Ending.FAILED, case: Attempt | None = None, **more) -> Diagnosis:
    flat = [each for group in findings for each in group]
    return diagnose(flat, case or ended(how), window_s=WINDOW, **more)


def reasons(answer: Diagnosis) -> list[tuple[str, str]]:
    return [(each.label, each.reason) for each in answer.rejected]


def test_node_evidence_outranks_the_loud_timeout_and_reads_as_a_sentence():
    answer = of(
        kernel("NVRM: GPU at PCI:0000:3b:00: GPU-7d0c8f35-1c55-6a0e-41b7-92e0f5d3a8c4"),
        xid(79, at=END - 600),
        log("step 1", *watchdog(0, 1, 3)),
    )
    assert (answer.label, answer.detail, answer.symptom) == ("hardware/gpu_xid", "xid=79", "network/nccl_timeout")
    assert (answer.confirmed, answer.disposition.value) == (True, "reboot")
    assert [(each.node, each.gpu) for each in answer.suspects] == [("n2", "0000:3b:00")]
    assert [each.signature for each in answer.chain] == ["nvidia.xid.79", "torch.watchdog"]
    assert answer.sentence == (
        "hardware/gpu_xid xid=79 on n2 GPU 0000:3b:00: GPU has fallen off the bus; "
        "the NCCL watchdog timeout on rank 0 (slurm-12.out:2) is its echo."
    )


def test_a_sentence_ends_with_one_full_stop():
    root = replace(xid(79, at=END - 600)[0], summary="GPU has fallen off the bus.")
    assert words.sentence(root, None, ()).endswith(" GPU has fallen off the bus.")


@pytest.mark.parametrize("article", ["a ", "an ", "the ", ""])
def test_an_echo_has_one_article(article):
    root, symptom = xid(79, at=END - 600)[0], log("step 1", *watchdog(0, 1, 3))[0]
    assert words.sentence(root, replace(symptom, summary=f"{article}hang"), ()).endswith(
        "; the hang on rank 0 (slurm-12.out:2) is its echo."
    )


@pytest.mark.parametrize(
    ("evidence", "more", "reason"),
    [
        (xid(79, at=END - 3600), {}, "it happened 60 minutes before the end, outside the window of 30 minutes"),
        (xid(79, at=END + 300), {}, "it happened after the job had ended"),
        (xid(79, at=END - 600), {"case": attempt(start=END - 300, end=END)}, "it happened before the job began"),
        (
            xid(79, gpu="0000:86:00"),
            {"job_gpus": {"n2": ("0000:3b:00",)}},
            "GPU 0000:86:00 is not one of the job's on n2",
        ),
        (xid(79, node="n9"), {}, "n9 is no node of this job"),
        (xid(79, boot="old") + xid(63, boot="new", at=END - 30), {}, "it is from an earlier boot of the node"),
        (
            kernel(
                "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/slurm/job_77,task_memcg=/slurm/job_77/s,task=python3,pid=5,uid=1"
            ),
            {},
            "it is of job 77",
        ),
    ],
)
def test_evidence_that_is_not_bound_to_the_attempt_is_rejected_with_the_reason(evidence, more, reason):
    answer = of(evidence, log(*watchdog(0)), **more)
    assert answer.label == "network/nccl_timeout"
    assert not answer.confirmed
    assert reason in [why for _label, why in reasons(answer)]


def test_a_gpu_of_the_job_and_an_unknown_set_of_gpus_both_count():
    for gpus in ({"n2": ("0000:3b:00",)}, {"n2": ()}, {"n1": ("0000:01:00",)}):
        assert of(xid(79), job_gpus=gpus).confirmed


@pytest.mark.parametrize("code", [13, 31, 43])
def test_application_xids_are_the_application(code):
    answer = of(xid(code))
    assert (answer.label, answer.confirmed, answer.suspects) == ("software/cuda_fault", False, ())


def test_xid_45_alone_explains_nothing():
    assert of(xid(45)).label == "unknown/unknown"


def test_a_remapped_row_is_a_witness_and_no_cause():
    assert of(xid(63)).label == "unknown/unknown"
    answer = of(xid(63, sequence=2), xid(48))
    assert [each.signature for each in answer.chain[:2]] == ["nvidia.xid.48", "nvidia.xid.63"]


def test_the_earliest_root_wins_over_the_gravest():
    first, second = xid(48, at=END - 90), xid(79, node="n1", at=END - 30)
    assert of(second, first).detail == "xid=48"


def test_the_root_carries_what_its_gpu_needs_in_the_end():
    answer = of(xid(48, at=END - 90), xid(79, at=END - 30, sequence=2))
    assert (answer.detail, answer.disposition.value, answer.chain[0].disposition.value) == (
        "xid=48",
        "reboot",
        "reboot",
    )


def test_neighbours_with_broken_links_do_not_outrun_the_gpu_that_died():
    answer = of(xid(74, gpu="0000:07:00", at=END - 62), xid(79, at=END - 60, sequence=2))
    assert (answer.detail, answer.suspects[0].gpu) == ("xid=79", "0000:3b:00")


def test_the_drivers_all_clear_leaves_the_cause_and_lifts_the_sentence():
    clear = kernel(
        "NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed from 0x1 (reset) to 0x0 (none)", sequence=2
    )
    answer = of(xid(48), clear)
    assert (answer.label, answer.confirmed, answer.disposition.value) == ("hardware/ecc_uncorrectable", False, "none")


def test_slurms_oom_line_explains_the_resets_before_it():
    answer = of(log("n2: step", RESET, "Killed", SLURM_OOM))
    assert (answer.label, answer.symptom) == ("resource/host_oom", "network/socket")
    assert answer.chain[0].evidence.line == 4


def test_the_kernels_oom_line_is_believed():
    text = "Out of memory: Killed process 4242 (python3) total-vm:9000000kB"
    answer = of(kernel(text, at=END - 700), log(RESET, *watchdog(0, 1)))
    assert (answer.label, answer.confirmed) == ("resource/host_oom", False)


def test_a_link_that_went_down_explains_a_collective_timeout():
    answer = of(kernel(LINK_DOWN, at=END - 700), kernel(LINK_UP, at=END - 680, sequence=2), log(*watchdog(0, 1)))
    assert (answer.label, answer.symptom) == ("network/link_down", "network/nccl_timeout")
    assert [each.node for each in answer.suspects] == ["n2"]


def test_a_link_that_came_back_explains_no_python_error_and_no_time_limit():
    flap = kernel(LINK_DOWN) + kernel(LINK_UP, sequence=2)
    assert of(flap, log(EXCEPTION)).label == "software/user_code"
    assert of(flap, how=Ending.TIME_LIMIT).label == "scheduler/time_limit"
    assert of(flap).label == "unknown/unknown"


def test_a_bare_timeout_is_the_label_of_last_resort_and_the_silent_rank_is_the_suspect():
    answer = of(log(*watchdog(1, 2, 3)))
    assert answer.label == "network/nccl_timeout"
    assert answer.symptom is None
    assert answer.confidence <= 0.3
    assert [each.rank for each in answer.suspects] == [0]
    assert "nothing in the evidence says why; look at rank 0 first" in answer.sentence


def test_the_rank_that_had_enqueued_least_is_the_suspect():
    line = (
        "[PG ID 0 PG GUID 0(default_pg) Rank {}] failure detected by watchdog at work sequence id: 9 PG status: "
        "last enqueued work: {}, last completed work: 8"
    )
    answer = of(log(*(line.format(rank, 9 if rank == 2 else 11) for rank in range(4))))
    assert [each.rank for each in answer.suspects] == [2]


def test_the_node_that_did_not_report_is_the_suspect():
    line = "{}:1:2 [0] transport/net_ib.cc:1296 NCCL WARN NET/IB : Got completion from peer 10.2.0.5<33> with error 12, opcode 0"
    case = ended(nodes=("n1", "n2", "n3"))
    assert [each.node for each in of(log(line.format("n1"), line.format("n3")), case=case).suspects] == ["n2"]


def test_the_peer_that_all_reports_name_is_the_suspect():
    answer = of(log(*watchdog(0), RESET, RESET.replace("n1:", "n3:")), case=ended(nodes=("n1", "n2", "n3")))
    assert [each.node for each in answer.suspects] == ["n2"]


def test_cuda_oom_beats_the_cascade_on_other_ranks():
    answer = of(log(f"[rank2]: {OOM}", RESET, "[rank0]: RuntimeError: Connection reset", *watchdog(0, 1)))
    assert (answer.label, answer.chain[0].evidence.rank) == ("software/oom", 2)
    assert ("network/nccl_timeout", "a symptom, which software/oom explains") in reasons(answer)


def test_a_python_exception_is_the_users_code_only_when_nothing_is_deeper():
    assert of(log(EXCEPTION, RESET)).label == "software/user_code"
    assert of(log(EXCEPTION, "OSError: [Errno 28] No space left on device")).label == "resource/disk_full"
    assert of(log(EXCEPTION), xid(79)).label == "hardware/gpu_xid"


def test_echoed_source_and_quoted_kernel_lines_convict_nobody():
    answer = of(
        log('    raise RuntimeError("CUDA out of memory. Tried to allocate")', "NVRM: Xid (PCI:0000:3b:00): 79, x")
    )
    assert answer.label == "unknown/unknown"
    assert reasons(answer) == [
        (
            "hardware/gpu_xid",
            "a job's log quotes the kernel, and anyone can write that; only the kernel's own log counts",
        )
    ]


@pytest.mark.parametrize(
    ("how", "label"),
    [
        (Ending.TIME_LIMIT, "scheduler/time_limit"),
        (Ending.CANCELLED, "scheduler/cancelled"),
        (Ending.PREEMPTED, "scheduler/preempted"),
        (Ending.NODE_FAIL, "hardware/node_down"),
        (Ending.OUT_OF_MEMORY, "resource/host_oom"),
        (Ending.FAILED, "unknown/unknown"),
        (Ending.COMPLETED, "unknown/unknown"),
    ],
)
def test_the_schedulers_word_counts_when_nothing_deeper_is_known(how, label):
    assert of(how=how).label == label
    assert of(log("Killing subprocess 7", RESET), how=how).label == label


@pytest.mark.parametrize("how", [Ending.TIME_LIMIT, Ending.PREEMPTED, Ending.NODE_FAIL])
def test_a_deeper_root_outranks_the_schedulers_word(how):
    assert of(log(OOM), how=how).label == "software/oom"
    assert of(xid(79), how=how).confirmed


def test_what_a_person_cancelled_stays_cancelled_unless_hardware_is_proven_broken():
    assert of(log(OOM, EXCEPTION), how=Ending.CANCELLED).label == "scheduler/cancelled"
    assert of(xid(13), how=Ending.CANCELLED).label == "scheduler/cancelled"
    assert of(xid(79), how=Ending.CANCELLED).label == "hardware/gpu_xid"


def test_the_failed_node_is_the_suspect_of_a_node_failure():
    answer = of(case=ended(Ending.NODE_FAIL, failed_node="n2"))
    assert [each.node for each in answer.suspects] == ["n2"]
    assert not answer.confirmed


def test_slurms_line_is_the_cause_rather_than_its_state():
    answer = of(log("step 9", TIME_LIMIT, "Killing subprocess 7"), how=Ending.TIME_LIMIT)
    assert (answer.label, answer.chain[0].evidence.line) == ("scheduler/time_limit", 2)


def test_what_is_written_while_slurm_ends_the_job_is_no_cause():
    answer = of(log(TIME_LIMIT, "OSError: [Errno 24] Too many open files"))
    assert answer.label == "scheduler/time_limit"
    assert ("resource/fd_limit", "it was written after the scheduler had begun to end the job") in reasons(answer)


def test_a_continued_log_does_not_blame_an_earlier_attempt():
    earlier = TIME_LIMIT.replace("02:46:30", "00:10:00").replace("TIME LIMIT", "PREEMPTION")
    answer = of(log(OOM, earlier, "again", EXCEPTION))
    assert (answer.label, answer.chain[0].evidence.line) == ("software/user_code", 4)
    assert ("software/oom", "the log was continued, and this line is of an earlier attempt") in reasons(answer)


def test_heat_is_named_only_when_nothing_says_more():
    hot = kernel("CPU0: Core temperature is above threshold, cpu clock is throttled (total events = 3)")
    answer = of(hot, log(*watchdog(0, 1)))
    assert (answer.label, answer.symptom, answer.confirmed) == ("hardware/thermal", "network/nccl_timeout", False)
    assert of(hot, log(EXCEPTION)).label == "software/user_code"


def test_nothing_means_unknown_and_says_what_to_look_at():
    answer = of()
    assert (answer.label, answer.symptom, answer.chain, answer.confidence) == ("unknown/unknown", None, (), 0.0)
    assert "look at the kernel log of n1, n2" in answer.sentence
    echo = of(log("Killing subprocess 7"))
    assert echo.label == "unknown/unknown"
    assert "is only an echo" in echo.sentence


def test_hardware_that_only_a_log_speaks_of_is_suspected():
    answer = of(log("[rank1]: RuntimeError: CUDA error: uncorrectable ECC error encountered"))
    assert (answer.label, answer.confirmed) == ("hardware/ecc_uncorrectable", False)
    assert "it is suspected, not proven by the node" in answer.sentence
    assert [(each.node, each.rank) for each in answer.suspects] == [(None, 1)]


def test_a_log_line_accuses_no_node_for_having_been_read_there():
    answer = of(log(*watchdog(0, 1), node="n1"))
    assert [each.node for each in answer.suspects] == []


def test_the_same_evidence_gives_the_same_bytes_in_whatever_order_it_came():
    findings = [
        *xid(79, at=END - 600),
        *xid(74, gpu="0000:07:00", at=END - 600, sequence=2),
        *xid(79, node="n9", at=END - 600),
        *xid(79, at=END - 5000, sequence=3),
        *kernel(LINK_DOWN, node="n1"),
        *log(EXCEPTION, OOM, RESET, *watchdog(0, 1, 3), SLURM_OOM),
        *log(EXCEPTION, *watchdog(2), file="slurm-12.err"),
    ]
    answers = set()
    for seed in range(50):
        random.Random(seed).shuffle(findings)
        answers.add(codec.dumps(diagnose(findings, ended(), window_s=WINDOW)))
    assert len(answers) == 1


def test_ten_thousand_ranks_give_one_answer():
    findings = log(*watchdog(*range(1, 10_000)), *(f"[rank{rank}]: {EXCEPTION}" for rank in range(5_000)))
    answer = of(findings)
    assert answer.label == "software/user_code"
