"""Versions that the nodes of a job must agree on: read from files, compared, and what a difference explains."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.make import BOOT, attempt, logged
from wheeltapper import versions
from wheeltapper.checks.model import Host
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.diagnosis.drift import between
from wheeltapper.evidence import Role

FILES = {
    "proc/sys/kernel/osrelease": "5.15.0-119-generic\n",
    "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.90.07  Release Build\n",
    "usr/local/cuda/version.json": '{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}',
    "usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5": "",
    "sys/module/mlx5_core/version": "24.04-0.6.6\n",
}


def host(folder):
    return Host("n1", BOOT, sysfs=folder / "sys", procfs=folder / "proc", root=folder)


def test_versions_are_read_from_files(tmp_path):
    for name, content in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)

    assert versions.read(host(tmp_path)) == {
        "kernel": "5.15.0-119-generic",
        "driver": "550.90.07",
        "cuda": "12.4.1",
        "nccl": "2.21.5",
        "ofed": "24.04-0.6.6",
    }


@pytest.mark.parametrize("content", ["", "[]", "{", '{"cuda": 7}'])
def test_what_is_not_there_or_not_readable_is_left_out(tmp_path, content):
    path = tmp_path / "usr/local/cuda/version.json"
    path.parent.mkdir(parents=True)
    path.write_text(content)

    assert versions.read(host(tmp_path)) == {}


def test_nodes_that_agree_are_not_told_of():
    same = {"driver": "550.90.07", "kernel": "5.15"}

    assert between({"n1": same, "n2": same}) == []
    assert between({"n1": same}) == []
    assert between({"n1": same, "n2": {}}) == [], "what a node does not tell is no difference"


def test_what_differs_is_a_witness_for_each_node():
    found = between({"n1": {"kernel": "5.15", "driver": "550.90.07"}, "n2": {"kernel": "5.4", "driver": "550.90.07"}})

    assert [each.evidence.text for each in found] == ["n1 has kernel 5.15", "n2 has kernel 5.4"]
    assert {(each.label, each.role) for each in found} == {("software/env_mismatch", Role.CONFIRM)}


TIMED_OUT = replace(logged("network/nccl_timeout", role=Role.SYMPTOM), signature="nccl.watchdog")


def answer(odd: dict[str, str], *findings):
    usual = {"driver": "550.90.07", "nccl": "2.21.5", "kernel": "5.15"}
    told = between({"n1": usual, "n2": {**usual, **odd}, "n3": usual})
    return diagnose([*findings, *told], attempt(nodes=("n1", "n2", "n3")), window_s=1800.0)


def test_another_branch_of_the_driver_explains_a_collective_that_failed():
    said = answer({"driver": "535.183.01"}, TIMED_OUT)

    assert said.label == "software/env_mismatch"
    assert said.root.evidence.text == "n2 has driver 535.183.01"
    assert said.symptom == "network/nccl_timeout"


@pytest.mark.parametrize("odd", [{"driver": "550.127.05"}, {"kernel": "5.4"}, {"nccl": "2.21.6"}])
def test_an_update_that_is_rolled_out_explains_nothing(odd):
    assert answer(odd, TIMED_OUT).label == "network/nccl_timeout"


def test_a_difference_alone_is_no_interruption():
    assert answer({"driver": "535.183.01"}).label == "unknown/unknown"


def test_what_the_log_says_plainly_outranks_a_difference():
    assert answer({"driver": "535.183.01"}, logged("software/oom"), TIMED_OUT).label == "software/oom"
