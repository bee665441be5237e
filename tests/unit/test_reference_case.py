"""The case that the design names: a hot GPU makes one rank slow, and 256 GPUs wait for it until NCCL's watchdog fires."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from tests.unit.inputs.given import of
from wheeltapper.diagnosis.advice import advise, nothing_happened
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.diagnosis.model import Diagnosis

SILENT, GPUS = 137, 256
END = datetime(2026, 3, 14, 2, 30, tzinfo=timezone.utc)

SMI = """
==============NVSMI LOG==============

Timestamp                                 : {when:%a %b %d %H:%M:%S %Y}

GPU 00000000:3B:00.0
    Clocks Event Reasons
        HW Slowdown                       : {slowdown}
            HW Thermal Slowdown           : {slowdown}
    Temperature
        GPU Current Temp                  : {degrees} C
        GPU Slowdown Temp                 : 92 C
"""
PORTS = "{when:%Y-%m-%dT%H:%M:%S}\n" + "".join(
    f"== n{node:02}\n# Port counters: Lid {node} port 1\nSymbolErrorCounter:..............4\nLinkDownedCounter:...............1\n"
    for node in range(GPUS // 8)
)


def log() -> str:
    """Every rank but the silent one tells of the same timeout, ten minutes after the hang began."""
    lines = ["step 4110 loss 2.031"]
    for rank in range(GPUS):
        if rank != SILENT:
            when = END + timedelta(milliseconds=7 * (rank * 31 % 97))
            lines.append(
                f"[rank{rank}]:[E] {when:%Y-%m-%d %H:%M:%S} [Rank {rank}] Watchdog caught collective operation timeout: "
                "WorkNCCL(SeqNum=88121, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 "
                "milliseconds before timing out."
            )
    return "\n".join(lines) + "\n"


def diagnosed(degrees: int, slowdown: str, *, sampled: timedelta = timedelta(minutes=12)) -> Diagnosis:
    files = {
        "slurm-77.out": log(),
        "nvidia-smi-q.n17.txt": SMI.format(when=END - sampled, degrees=degrees, slowdown=slowdown),
        "perfquery.before.txt": PORTS.format(when=END - timedelta(hours=9)),
        "perfquery.after.txt": PORTS.format(when=END),
    }
    found = of(files)
    return diagnose(found.findings, found.attempt, window_s=1800)


def test_a_gpu_at_92_degrees_is_the_cause_and_the_timeout_its_symptom():
    answer = diagnosed(92, "Active")
    assert (answer.label, answer.symptom) == ("hardware/thermal", "network/nccl_timeout")
    assert [(each.node, each.gpu) for each in answer.suspects] == [("n17", "0000:3b:00")]
    assert answer.confirmed
    assert answer.root is not None
    assert (answer.root.evidence.file, answer.root.evidence.line) == ("nvidia-smi-q.n17.txt", 9)
    assert advise(answer).value == "drain_node"


@pytest.mark.parametrize(
    ("degrees", "slowdown", "sampled"),
    [(45, "Not Active", timedelta(minutes=12)), (92, "Active", timedelta(hours=3))],
    ids=["a cool GPU", "heat of hours ago"],
)
def test_without_heat_in_time_it_is_a_timeout_at_low_confidence_that_names_the_silent_rank(degrees, slowdown, sampled):
    answer = diagnosed(degrees, slowdown, sampled=sampled)
    assert answer.label == "network/nccl_timeout"
    assert answer.confidence <= 0.3
    assert [each.rank for each in answer.suspects] == [SILENT]
    assert not answer.confirmed


def test_heat_ends_no_program_by_itself():
    files = {
        "slurm-77.out": "2026-03-14 02:29:00 step 1\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
        "nvidia-smi-q.n17.txt": SMI.format(when=END - timedelta(minutes=12), degrees=92, slowdown="Active"),
    }
    found = of(files)
    answer = diagnose(found.findings, None, window_s=1800)
    assert answer.label == "software/oom"
    assert [each.label for each in answer.rejected] == ["hardware/thermal"]


def test_a_node_that_was_warm_while_its_job_ran_interrupted_nothing():
    warm = SMI.format(when=END - timedelta(minutes=12), degrees=60, slowdown="Active")
    found = of({"slurm-77.out": "2026-03-14 02:29:00 step 1\nstep 2\n", "nvidia-smi-q.n17.txt": warm})
    answer = diagnose(found.findings, None, window_s=1800)
    assert nothing_happened(answer)
    assert [each.label for each in answer.rejected] == ["hardware/thermal"]


def test_what_a_completed_job_lived_through_interrupted_nothing():
    record = "JobID|State|ExitCode|NodeList\n77|COMPLETED|0:0|n17\n"
    warm = SMI.format(when=END - timedelta(minutes=12), degrees=60, slowdown="Active")
    found = of({"sacct.txt": record, "slurm-77.out": log(), "nvidia-smi-q.n17.txt": warm})
    answer = diagnose(found.findings, found.attempt, window_s=1800)
    assert nothing_happened(answer)
    hot = SMI.format(when=END - timedelta(minutes=12), degrees=92, slowdown="Active")
    found = of({"sacct.txt": record, "slurm-77.out": log(), "nvidia-smi-q.n17.txt": hot})
    assert diagnose(found.findings, found.attempt, window_s=1800).label == "hardware/thermal"


def test_counters_read_long_after_the_end_still_tell_what_happened_before():
    late = PORTS.format(when=END + timedelta(hours=2)).replace(
        "== n05\n# Port counters: Lid 5 port 1\nSymbolErrorCounter:..............4",
        "== n05\n# Port counters: Lid 5 port 1\nSymbolErrorCounter:..............90004",
    )
    files = {
        "slurm-77.out": log(),
        "perfquery.before.txt": PORTS.format(when=END - timedelta(hours=9)),
        "perfquery.after.txt": late,
    }
    answer = diagnose(of(files).findings, None, window_s=1800)
    assert (answer.label, [each.node for each in answer.suspects]) == ("network/link_errors", ["n05"])
