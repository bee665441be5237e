"""What the child process asks of pyslurm, on a stand-in for the module: the real one needs Slurm's own library."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest

from tests.unit.slurm import pyslurm_stand_in as pyslurm
from wheeltapper_slurm import json_records, pyslurm_child
from wheeltapper_slurm.pyslurm_child import Calls

HELD, FAILED, TASK = "10", "1", "5"
"""Numbers of recorded jobs: held by Slurm after its prolog failed, failed, a task of an array."""


@pytest.fixture
def said():
    """Make calls as the other side writes them, and return what is answered."""
    pyslurm.add_samples("24.11", "held-after-prolog", "failed", "array-task")

    def call(*calls):
        answers = io.StringIO()
        lines = [json.dumps({"name": name, "arguments": arguments}) for name, *arguments in calls]
        pyslurm_child.serve(Calls(pyslurm), lines, answers)
        return [json.loads(line) for line in answers.getvalue().splitlines()]

    yield call
    for each in (pyslurm.jobs, pyslurm.asked, pyslurm.trouble):
        each.clear()


@pytest.mark.parametrize("path", sorted((pyslurm.SAMPLES / "24.11").glob("job-*.json")), ids=lambda path: path.stem)
def test_a_job_is_the_same_through_pyslurm_and_through_json(path):
    entry = json.loads(path.read_text().splitlines()[0])
    pyslurm.add(entry)
    read, expected = pyslurm_child.job_of(pyslurm.jobs[entry["job_id"]]), json_records.of(entry)
    # pyslurm does not show task 0 of an array, nor whether Slurm requeues a job itself, nor what one that completes has
    # ended as: such jobs are read by command.
    assert read == replace(expected, array="", expedited=False, ended_as="")


def test_a_task_of_an_array_is_told_apart(said):
    task, other = said(["job", TASK], ["job", FAILED])

    assert task["value"]["is_task"]
    assert not other["value"]["is_task"]


def test_what_slurmctld_does_not_know_is_nothing_and_not_an_error(said):
    assert said(["job", "999"], ["node", "node9"]) == [{"value": None}, {"value": None}]


def test_a_drain_is_state_and_reason_in_one_call(said):
    assert said(["drain", "node1", "wheeltapper: x"], ["resume", "node1"]) == [{"value": None}] * 2
    assert pyslurm.asked == [
        ("node", "node1", {"state": "DRAIN", "reason": "wheeltapper: x"}),
        ("node", "node1", {"state": "RESUME"}),
    ]


def test_nodes_have_their_states_reason_and_partitions(said):
    [answer] = said(["nodes"])

    assert answer["value"] == [
        {"name": "node1", "states": ["IDLE"], "reason": "", "partitions": ["main"], "hosts": [], "gpus": 8},
        {
            "name": "node2",
            "states": ["ALLOCATED", "DRAIN"],
            "reason": "wheeltapper: hardware/gpu_xid xid=79: reboot",
            "partitions": ["main"],
            "hosts": [],
            "gpus": 8,
        },
    ]


def test_each_property_of_a_job_is_changed_alone(said):
    odd = "wheeltapper: a1; $(touch /tmp/x) 'OpType=ALLREDUCE'"
    said(
        ["update_job", FAILED, "AdminComment", odd],
        ["update_job", FAILED, "ExcNodeList", "node[1-2]"],
        ["update_job", FAILED, "StartTime", "now"],
        ["requeue", FAILED],
        ["release", HELD],
    )

    assert pyslurm.asked == [
        ("modify", 1, {"admin_comment": odd}),
        ("modify", 1, {"excluded_nodes": "node[1-2]"}),
        ("modify", 1, {"begin_time": "now"}),
        ("requeue", 1, False),
        ("release", 10),
    ]


def test_a_job_is_ended_by_the_end_of_its_script_alone(said):
    assert said(["end", FAILED]) == [{"value": None}]
    assert pyslurm.asked == [("send_signal", 1, 9, "batch", False)]


@pytest.mark.parametrize("error", [pyslurm.RPCError("Socket timed out on send/recv operation"), TypeError("a new API")])
def test_whatever_pyslurm_raises_is_an_answer(said, error):
    pyslurm.trouble.append(error)

    assert said(["job", "1"], ["requeue", "1"], ["node", "node1"]) == [{"refused": str(error)}] * 3
