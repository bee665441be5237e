"""Thousands of ranks say the same thing: one interruption, one suspect, in whatever order the lines arrive."""

from __future__ import annotations

import random

from tests.unit.evidence import END, log, watchdog
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.diagnosis.model import Diagnosis
from wheeltapper.evidence import Disposition, Evidence, Finding, Role, Source
from wheeltapper.labels import Label

HOT = Finding(
    "check.gpu_thermal",
    Label("hardware/thermal"),
    Role.ROOT,
    Disposition.NONE,
    Evidence(Source.CHECK, "GPU 3: 92 C, HW thermal slowdown active", END - 900, "n9", "b", gpu="0000:9b:00"),
    summary="the GPU is slowed down by heat",
)


def of(*findings: Finding) -> Diagnosis:
    return diagnose(findings, None, window_s=1800.0)


def storm(ranks: int, silent: int) -> list[Finding]:
    lines = watchdog(*(rank for rank in range(ranks) if rank != silent))
    random.Random(ranks).shuffle(lines)
    return log(*lines)


def test_a_storm_of_16384_ranks_is_one_interruption_with_one_suspect():
    answer = of(*storm(16_384, 4242))
    assert (answer.label, [each.rank for each in answer.suspects]) == ("network/nccl_timeout", [4242])


def test_the_order_in_which_evidence_arrives_changes_nothing():
    findings = [*storm(64, 7), HOT]
    answers = []
    for seed in range(5):
        random.Random(seed).shuffle(findings)
        answers.append(of(*findings))
    assert all(each == answers[0] for each in answers)
