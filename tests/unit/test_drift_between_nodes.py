"""Versions that the nodes of a job must agree on: compared, and what a difference explains."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.make import attempt, logged
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.diagnosis.drift import between
from wheeltapper.evidence import Role


def test_nodes_that_agree_are_not_told_of():
    same = {"nvidia_driver": "550.90.07", "kernel": "5.15"}

    assert between({"n1": same, "n2": same}) == []
    assert between({"n1": same}) == []
    assert between({"n1": same, "n2": {}}) == [], "what a node does not tell is no difference"


def test_what_differs_is_a_witness_for_each_node():
    found = between(
        {"n1": {"kernel": "5.15", "nvidia_driver": "550.90.07"}, "n2": {"kernel": "5.4", "nvidia_driver": "550.90.07"}}
    )

    assert [each.evidence.text for each in found] == ["n1 has kernel 5.15", "n2 has kernel 5.4"]
    assert {(each.label, each.role) for each in found} == {("software/env_mismatch", Role.CONFIRM)}


TIMED_OUT = replace(logged("network/nccl_timeout", role=Role.SYMPTOM), signature="nccl.watchdog")


def answer(odd: dict[str, str], *findings):
    usual = {"nvidia_driver": "550.90.07", "nccl": "2.21.5", "kernel": "5.15"}
    told = between({"n1": usual, "n2": {**usual, **odd}, "n3": usual})
    return diagnose([*findings, *told], attempt(nodes=("n1", "n2", "n3")), window_s=1800.0)


def test_another_branch_of_the_driver_explains_a_collective_that_failed():
    said = answer({"nvidia_driver": "535.183.01"}, TIMED_OUT)

    assert said.label == "software/env_mismatch"
    assert said.root.evidence.text == "n2 has nvidia_driver 535.183.01"
    assert said.symptom == "network/nccl_timeout"


@pytest.mark.parametrize("odd", [{"nvidia_driver": "550.127.05"}, {"kernel": "5.4"}, {"nccl": "2.21.6"}])
def test_an_update_that_is_rolled_out_explains_nothing(odd):
    assert answer(odd, TIMED_OUT).label == "network/nccl_timeout"


def test_a_difference_alone_is_no_interruption():
    assert answer({"nvidia_driver": "535.183.01"}).label == "unknown/unknown"


def test_what_the_log_says_plainly_outranks_a_difference():
    assert answer({"nvidia_driver": "535.183.01"}, logged("software/oom"), TIMED_OUT).label == "software/oom"
