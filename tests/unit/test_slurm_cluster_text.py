"""What the private cluster's library reads and writes as text; no cluster is needed."""

from __future__ import annotations

import os
import sys

import pytest

from tests.e2e.slurm.cluster import Hooks, Unavailable, records, requirements, settings
from wheeltapper import config
from wheeltapper.errors import ConfigError

JOB = """JobId=14 ArrayJobId=12 ArrayTaskId=3 JobName=train JobState=FAILED
   UserId=nobody(65534) GroupId=nogroup(65534) MCS_label=N/A
   JobState=PENDING Reason=launch_failed_requeued_held Dependency=(null)
   Requeue=1 Restarts=1 BatchFlag=1 Reboot=0 ExitCode=0:0
   NtasksPerN:B:S:C=0:0:*:* CoreSpec=*
   Command=/home/a b/run.sh --lr=0.1 Requeue=0
   Comment=x NodeList=node9
   Power=
"""

NODE = """NodeName=node1 Arch=x86_64 CoresPerSocket=1
   OS=Linux 6.1.0 #1 SMP PREEMPT_DYNAMIC Debian State=DOWN
   State=IDLE+DRAIN* ThreadsPerCore=1 TmpDisk=0
   Reason=wheeltapper: hardware/gpu_xid xid=79 gpu=0000:3b:00 [sic] [root@2026-11-29T22:00:00]
"""


def test_user_text_cannot_be_taken_for_a_field() -> None:
    [job] = records.jobs(JOB)
    assert job["JobName"] == "train JobState=FAILED"
    assert (job["JobState"], job["Reason"], job["Dependency"]) == ("PENDING", "launch_failed_requeued_held", "(null)")
    assert job["Command"] == "/home/a b/run.sh --lr=0.1 Requeue=0"
    assert (job["Requeue"], job["Comment"], job["Power"]) == ("1", "x NodeList=node9", "")
    assert "NodeList" not in job
    assert job["NtasksPerN:B:S:C"] == "0:0:*:*"


def test_jobs_are_told_apart_by_empty_lines() -> None:
    assert [job["JobId"] for job in records.jobs(f"{JOB}\n{JOB.replace('14', '15')}\n")] == ["14", "15"]
    assert records.jobs("No jobs in the system\n") == []


def test_a_reason_keeps_its_equal_signs_and_loses_who_set_it() -> None:
    reason = "wheeltapper: hardware/gpu_xid xid=79 gpu=0000:3b:00 [sic]"
    assert records.node_state(NODE) == (frozenset({"IDLE", "DRAIN"}), reason)


def test_a_node_without_a_reason_has_an_empty_one() -> None:
    assert records.node_state("NodeName=n\n   State=IDLE ThreadsPerCore=1\n") == (frozenset({"IDLE"}), "")


def test_a_change_keeps_what_stands_beside_it() -> None:
    own = {
        "cluster": "lab",
        "policy": {"mode": "observe", "budget": {"max_nodes": 2}},
        "node": {"gpus": ["0000:3b:00"]},
    }
    text = settings.wheeltapper_toml(own, {"policy": {"mode": "full", "budget": {"max_percent": 50}}})
    result = config.parse(text)
    assert (result.cluster, result.node.gpus) == ("lab", ("0000:3b:00",))
    assert (result.policy.mode, result.policy.budget.max_nodes, result.policy.budget.max_percent) == ("full", 2, 50)


def test_a_wrong_change_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"policy\.mood: there is no such key"):
        settings.wheeltapper_toml({}, {"policy": {"mood": "full"}})


def test_a_hook_that_is_left_out_is_not_in_slurm_conf() -> None:
    assert Hooks.none().lines(5) == {}
    lines = Hooks(healthcheck=None).lines(5)
    assert {"Prolog", "Epilog", "EpilogSlurmctld"} == set(lines)
    assert lines["Prolog"].endswith("/hooks/prolog")


def test_without_slurm_the_message_names_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "PATH", "/nowhere")
    monkeypatch.setattr(requirements, "PLUGIN_PLACES", ())
    packages = "iproute2 munge slurm-client slurm-wlm-basic-plugins slurmctld slurmd util-linux"
    with pytest.raises(Unavailable, match=f"sudo apt-get install --no-install-recommends {packages}$"):
        requirements.require()


def test_without_root_the_message_is_the_line_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "missing", lambda **_: [])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Unavailable, match=r"type: sudo make demo$"):
        requirements.require("make demo")
    monkeypatch.setattr(sys, "orig_argv", ["python", "-m", "pytest", "tests/e2e"])
    with pytest.raises(Unavailable, match=f"type: sudo {sys.executable} -m pytest tests/e2e$"):
        requirements.ensure_installed()
