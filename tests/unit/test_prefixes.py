"""What launchers and collectors of logs put in front of a line hides nothing, and convicts nobody."""

from __future__ import annotations

import pytest

from tests.unit.evidence import log
from wheeltapper.diagnosis.diagnose import diagnose

TRACEBACK = [
    "Traceback (most recent call last):",
    '  File "/w/train.py", line 3, in <module>',
    "    raise RuntimeError('CUDA error: device-side assert triggered')",
    "KeyError: 'tokens'",
]

PREFIXES = [
    "[default0]:",  # torchrun --tee
    "[rank3]: ",
    "0: [rank3]: ",
    "[1,0]<stderr>:",  # mpirun --tag-output
    "[1]<stderr>:",  # horovodrun
    "Fri Sep 25 16:52:57 2020[1]<stderr>:",
    "[1,mpirank:0,algo-1]<stderr>:",  # SageMaker
    "algo-1-k2x9  | ",
    "trainer_1  | ",  # docker compose
    "[pod/llama-worker-1/pytorch] ",  # kubectl logs --prefix
    "llama-worker-1 pytorch ",  # stern
    "2026-06-01T10:00:00.123456789Z stderr F ",  # containerd
    "2026-06-01T10:00:00.123456789Z ",  # kubectl logs --timestamps
    "node01: ",  # pdsh, clush
    "worker-1: ",
    "10.0.0.5: ",
    "2: node3: ",
    "[0] ",
    "[gpu-07:0] ",
    "[Rank 0] ",
    "rank0: ",
    "(pid=12) ",  # Ray
    "(WorkerDict pid=12, ip=10.0.0.1) ",
    "(LLMRayActor pid=12) (EngineCore_DP0 pid=13) ERROR 03-05 00:25:45 [core.py:1094] ",  # vLLM in Ray
    "(worker1, rank=1, pid=12, ip=10.0.0.1) ",  # SkyPilot
    "Jun  1 10:00:00 gpu07 trainer[1234]: ",  # syslog
    "[2026-06-01 10:00:00] ",
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_traceback_behind_a_prefix_is_read_and_its_source_code_is_not(prefix):
    answer = diagnose(log(*(prefix + line for line in TRACEBACK)), None, window_s=1800.0)
    assert answer.label == "software/user_code"
    assert answer.root is not None
    assert answer.root.evidence.line == len(TRACEBACK)


@pytest.mark.parametrize(
    ("prefix", "rank"),
    [("[rank3]: ", 3), ("[Rank 2] ", 2), ("(worker1, rank=1, pid=12, ip=10.0.0.1) ", 1), ("[default5]:", None)],
)
def test_a_prefix_tells_the_rank_only_where_it_counts_all_ranks(prefix, rank):
    assert [each.evidence.rank for each in log(prefix + "KeyError: 'tokens'")] == [rank]


def test_torchruns_report_holds_the_exception_of_the_rank():
    answer = diagnose(
        log(
            "Root Cause (first observed failure):",
            "  traceback : Traceback (most recent call last):",
            '    File "/w/train.py", line 144, in run',
            "      acc = correct / total",
            "  ZeroDivisionError: division by zero",
        ),
        None,
        window_s=1800.0,
    )
    assert answer.label == "software/user_code"


@pytest.mark.parametrize(
    "line",
    ["[WARNING] retrying after KeyError: 'tokens'", "step3: caught KeyError: 'tokens'", "node01: no ValueError: today"],
)
def test_words_about_an_exception_are_none_behind_a_prefix_either(line):
    assert log(line) == []


def test_text_that_its_library_pads_is_no_source_code():
    said = "[n2:4021:0:4021]        ib_iface.c:1034 UCX  ERROR ibv_create_cq(cqe=4096) failed: Cannot allocate memory"
    refused = f"{said} : Please set max locked memory (ulimit -l) to 'unlimited' (current: 64 kbytes)"
    assert diagnose(log(refused), None, window_s=1800.0).label == "resource/memlock"
