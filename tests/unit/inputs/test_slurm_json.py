"""Slurm's records with --json, in the shapes of its releases."""

from __future__ import annotations

import json

import pytest

from tests.unit.inputs.given import of, told
from wheeltapper.attempt import Ending

NOT_SET = {"set": False, "infinite": False, "number": 0}


def number(value: int) -> dict[str, object]:
    return {"set": True, "infinite": False, "number": value}


def squeue_22_05(state: str = "CANCELLED", status: int = 768) -> str:
    """As squeue of 22.05 prints it: plain values, and the exit code as wait(2) tells it."""
    job = {
        "job_id": 12, "name": "train", "job_state": state, "state_reason": "None", "exit_code": status, "nodes": "n[1-2]",
        "failed_node": "", "start_time": 1000, "end_time": 2000, "batch_host": "n1", "requeue": False,
        "standard_output": "/home/u/slurm-12.out",
    }  # fmt: skip
    about = {"plugin": {"type": "openapi/v0.0.38"}, "Slurm": {"release": "22.05.8"}}
    return json.dumps({"meta": about, "errors": [], "jobs": [job]}, indent=2).replace("/", "\\/")


def scontrol_23_11(states: tuple[str, ...] = ("CANCELLED", "COMPLETING")) -> str:
    """As scontrol show job prints it from 23.02 on: values with whether they are set, states in lists."""
    job = {
        "job_id": 12, "name": "train", "job_state": list(states), "state_reason": "None", "nodes": "n[1-2]",
        "exit_code": {"status": ["ERROR"], "return_code": number(3), "signal": {"id": NOT_SET, "name": ""}},
        "failed_node": "", "start_time": number(1000), "end_time": number(2000), "batch_host": "n1", "requeue": False,
        "standard_output": "/home/u/slurm-12.out",
    }  # fmt: skip
    return json.dumps({"jobs": [job], "last_backfill": NOT_SET, "meta": {"slurm": {"release": "23.11.4"}}}, indent=2)


def sacct(state: object = ("CANCELLED",), **more: object) -> str:
    """As sacct prints it: state and times in objects of their own, and the steps inside of the job."""
    step = {"state": ["FAILED"], "exit_code": {"return_code": number(9)}, "nodes": {"list": ["n1"]}}
    job = {
        "account": "a", "job_id": 12, "name": "train", "nodes": "n[1-2]", "state": {"current": state, "reason": "None"},
        "exit_code": {"status": ["ERROR"], "return_code": number(3), "signal": {"id": NOT_SET}}, "failed_node": "",
        "time": {"start": 1000, "end": 2000, "elapsed": 1000}, "steps": [step], **more,
    }  # fmt: skip
    return json.dumps({"jobs": [job], "meta": {"slurm": {"release": "24.05"}}}, indent=2)


@pytest.mark.parametrize("text", [squeue_22_05(), scontrol_23_11(), sacct(), sacct("CANCELLED")])
def test_every_shape_tells_the_same_attempt(text):
    found = of({"job.json": text})
    assert [each[0] for each in told(found)] == ["scheduler/cancelled"]
    line = text.split("\n")[(told(found)[0][3] or 0) - 1]
    assert "CANCELLED" in line
    attempt = found.attempt
    assert attempt is not None
    assert (attempt.job, attempt.ending, attempt.exit_code, attempt.signal) == ("12", Ending.CANCELLED, 3, 0)
    assert (attempt.nodes, attempt.start, attempt.end, attempt.name) == (("n1", "n2"), 1000.0, 2000.0, "train")


def test_the_logs_and_the_wish_not_to_be_requeued_are_read():
    for text in (squeue_22_05(), scontrol_23_11()):
        attempt = of({"job.json": text}).attempt
        assert attempt is not None
        assert (attempt.logs, attempt.requeueable, attempt.batch_host) == (("/home/u/slurm-12.out",), False, "n1")


def test_a_job_that_runs_has_not_ended_and_a_signal_is_told_apart_from_a_code():
    assert of({"job.json": scontrol_23_11(("RUNNING",))}).attempt is None
    killed = of({"job.json": squeue_22_05("FAILED", 9)}).attempt
    assert killed is not None
    assert (killed.exit_code, killed.signal) == (0, 9)


def test_the_node_that_failed_is_named():
    found = of({"sacct.json": sacct(["NODE_FAIL"], failed_node="n2")})
    assert [each[:2] for each in told(found)] == [("hardware/node_down", "n2")]


NODE = {
    "architecture": "x86_64",
    "name": "n3",
    "hostname": "n3",
    "reason": "gres/gpu count reported lower than configured (7 < 8)",
}


@pytest.mark.parametrize(
    ("node", "labels"),
    [
        ({**NODE, "state": "down", "state_flags": ["DRAIN"]}, ["hardware/gpu_lost"]),
        ({**NODE, "state": ["IDLE", "DRAIN"]}, ["hardware/gpu_lost"]),
        ({**NODE, "state": ["DOWN", "NOT_RESPONDING"], "reason": ""}, ["hardware/node_down"]),
        ({**NODE, "state": ["MAINTENANCE"], "reason": "new firmware"}, ["scheduler/maintenance"]),
        ({**NODE, "state": "idle", "state_flags": [], "reason": ""}, []),
    ],
)
def test_nodes_are_judged_as_from_scontrols_text(node, labels):
    found = of({"nodes.json": json.dumps({"nodes": [node]}, indent=1)})
    assert [(each[0], each[1]) for each in told(found)] == [(label, "n3") for label in labels]


@pytest.mark.parametrize(
    "text",
    ['{"jobs": [{"job_id": []}]}', '{"jobs": [{"job_id": 1, "job_state": {}}]}', '{"nodes": [{"architecture": 1}]}'],
)
def test_what_has_another_shape_is_passed_over(text):
    found = of({"job.json": text})
    assert (found.findings, found.attempt) == ((), None)
