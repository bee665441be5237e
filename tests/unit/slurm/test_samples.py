"""What we read of Slurm's output, on the outputs of real clusters of each release (`python -m tests.e2e.slurm.record`)."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from wheeltapper.config import PolicySection
from wheeltapper_slurm import checkup, json_records, records
from wheeltapper_slurm.checkup import Weight
from wheeltapper_slurm.records import JobRecord

SAMPLES = Path(__file__).parents[2] / "data" / "slurm"
RELEASES = ("22.05", "24.11", "26.05")
NEWER = RELEASES[1:]
EXPEDITING = RELEASES[2:]

NAME = "train UserId=root(0) JobState=FAILED Requeue=0"
COMMENT = "wheeltapper: a1 hardware/gpu_xid xid=79 at node2 kernel log: 'OpType=ALLREDUCE, x=1'"

every_release = pytest.mark.parametrize("release", RELEASES)


def text(release: str, name: str) -> str:
    return (SAMPLES / release / name).read_text()


def job(release: str, name: str) -> JobRecord:
    called = NAME if name in {"failed", "held-by-user"} else "sbatch"
    return records.job(text(release, f"job-{name}.txt").strip(), called)


def entries(release: str, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text(release, name).splitlines()]


@every_release
@pytest.mark.parametrize(
    ("name", "state", "host"),
    [
        ("array-task", "RUNNING", "node1"),
        ("cancelled", "CANCELLED", "node1"),
        ("completed", "COMPLETED", "node1"),
        ("completing", "COMPLETING", "node2"),
        ("failed", "FAILED", "node1"),
        ("held-after-prolog", "PENDING", None),
        ("held-by-user", "PENDING", None),
        ("node-fail", "NODE_FAIL", "node4"),
        ("node-fail-requeued", "PENDING", None),
        ("requeued", "PENDING", None),
        ("running", "RUNNING", "node1"),
    ],
)
def test_every_state_of_a_job_is_read_alike(release, name, state, host):
    read = job(release, name)

    assert (read.state, read.batch_host) == (state, host)
    assert read.completing == (state == "COMPLETING")
    assert read.waiting == (state == "PENDING")
    assert read.held == name.startswith("held")
    assert read.restarts == int("requeued" in name or name == "held-after-prolog")
    assert read.batch
    assert read.requeueable == (name != "node-fail")


@every_release
def test_whose_hold_it_is_stands_in_the_reason(release):
    assert job(release, "held-after-prolog").reason == "launch_failed_requeued_held"
    assert job(release, "held-by-user").reason == "JobHeldUser"


@every_release
def test_a_job_whose_name_and_label_look_like_fields_is_read_whole(release):
    ended, waits = job(release, "failed"), job(release, "held-by-user")

    assert (ended.state, ended.exit_code, ended.signal) == ("FAILED", 7, 0)
    assert ended.admin_comment == waits.admin_comment == COMMENT
    assert waits.excluded == ("node3", "node4")
    assert waits.start is None
    assert ended.end is not None


@every_release
def test_what_slurm_itself_writes_for_an_exit_differs(release):
    """No signal was sent: these numbers are Slurm's own, and 22.05 writes none."""
    own = (1, 54) if release in NEWER else (0, 0)

    assert (job(release, "node-fail").signal, job(release, "held-after-prolog").signal) == own


@pytest.mark.parametrize("release", EXPEDITING)
def test_an_expedited_requeue_is_known_as_a_job_that_waits(release):
    """An epilog that failed sends the job on at once; when all passed, Slurm holds it, and leaves that to a person."""
    sent_on, held = job(release, "expediting"), job(release, "expedited-held")

    assert (sent_on.state, sent_on.waiting, sent_on.held) == ("EXPEDITING", True, False)
    assert (held.state, held.waiting, held.held) == ("REQUEUE_HOLD", True, True)
    assert held.reason == "job_requeued_in_held_state"


@every_release
def test_nodes_are_read_alike(release):
    nodes = {node.name: node for node in map(records.node, text(release, "nodes.txt").strip().splitlines())}

    assert list(nodes) == ["node1", "node2", "node3", "node4"]
    assert nodes["node1"].states == {"ALLOCATED"}
    assert nodes["node2"].states == {"ALLOCATED", "DRAIN"}
    assert nodes["node2"].reason.endswith("gpu=0000:3b:00 job=1 at=2026-11-29T12:01:03Z: reboot")
    assert (nodes["node3"].silent, nodes["node3"].reason) == (True, "admin: swap PSU [rack 3]")
    assert all(node.partitions == ("main",) for node in nodes.values())


@every_release
def test_a_node_that_is_silent_keeps_the_reason_that_we_gave_it(release):
    shown = text(release, "node-away.txt").strip()
    away = records.node(shown)

    assert away.states >= {"DOWN", "DRAIN", "NOT_RESPONDING"}
    assert (" : Not responding [" in shown) is (release in NEWER)
    assert away.reason.endswith("at=2026-11-29T12:01:03Z: reboot")


@every_release
def test_the_programs_that_slurm_calls_are_found_numbered_or_not(release):
    read = records.configuration(text(release, "config.txt"))

    assert [read[key].rpartition("/")[2] for key in ("Prolog", "Epilog", "EpilogSlurmctld")] == [
        "prolog",
        "epilog",
        "epilogslurmctld",
    ]
    dangers = [each.about for each in checkup.advise(read, PolicySection()) if each.weight is Weight.DANGER]
    assert dangers == ["SchedulerParameters"]  # nohold_on_prolog_fail is left out here


def test_several_programs_of_a_kind_are_all_named():
    said = "Configuration data as of 2026\nEpilog[0]   = /a\nEpilog[1]   = /b = c\nEpilogMsgTime = 2000 usec\n"

    assert records.configuration(said) == {"Epilog": "/a,/b = c", "EpilogMsgTime": "2000 usec"}


@every_release
def test_the_shapes_of_json_are_those_that_the_document_names(release):
    """docs/slurm-releases.md says what a reader of ``--json`` must be ready for."""
    (ending,) = entries(release, "job-completing.json")
    (kept_off,) = entries(release, "job-held-after-prolog.json")
    nodes = {node["name"]: node for node in entries(release, "nodes.json")}

    if release in NEWER:
        assert ending["job_state"] == ["FAILED", "COMPLETING"]
        assert ending["exit_code"]["return_code"] == {"set": True, "infinite": False, "number": 7}
        assert ending["start_time"]["set"]
        assert nodes["node2"]["state"] == ["ALLOCATED", "DRAIN"]
    else:
        assert ending["job_state"] == "COMPLETING"
        assert ending["exit_code"] == 7 << 8
        assert ending["start_time"] > 0
        assert (nodes["node2"]["state"], nodes["node2"]["state_flags"]) == ("allocated", ["DRAIN"])
    # The other form says launch_failed_requeued_held as the reason, and so tells whose hold it is.
    assert (kept_off["state_reason"], kept_off["state_description"]) == ("JobHeldUser", "launch failed requeued held")


@every_release
def test_what_the_text_holds_is_what_the_document_names(release):
    """docs/slurm-releases.md says which release prints what."""
    newer, newest = release in NEWER, release in EXPEDITING
    failed = text(release, "job-failed.txt")

    assert ("\nEpilog[0] " in text(release, "config.txt")) is newer
    assert ("FailedNode" in text(release, "sacct.txt").splitlines()[0]) is newer
    assert (" SubmitLine=sbatch " in failed) is newest
    assert (" StdErr= " in failed) is newest
    if newest:
        assert text(release, "job-expediting-completing.txt").rstrip().endswith(" ExpeditedRequeue=Yes")


SAMPLED_JOBS = [
    pytest.param(path.parent.name, path.stem.removeprefix("job-"), id=f"{path.parent.name}-{path.stem}")
    for path in sorted(SAMPLES.glob("*/job-*.json"))
]


@pytest.mark.parametrize(("release", "name"), SAMPLED_JOBS)
def test_a_job_is_the_same_in_json_and_in_text(release, name):
    [entry] = entries(release, f"job-{name}.json")
    from_json, from_text = json_records.of(entry), job(release, name)

    # The text shows no end beyond what its clock can print, and this one was recorded a moment earlier.
    over = from_text.state in {"FAILED", "COMPLETED", "CANCELLED", "NODE_FAIL"}
    reason = from_text.reason if (release, name) != ("24.11", "array-task") else from_json.reason
    end = from_json.end if over else from_text.end
    assert replace(from_json, end=end, ended_as="") == replace(from_text, reason=reason)
    assert from_json.ended_as == ("FAILED" if name.endswith("completing") and release in NEWER else "")


@pytest.mark.parametrize("text", ["", "scontrol: error", "[]", "{}", '{"jobs": 3}', '{"jobs": [{}]}', '{"jobs": [7]}'])
def test_what_is_no_document_of_jobs_is_refused(text):
    with pytest.raises(ValueError, match=r"Expecting value|no list of jobs"):
        json_records.job(text, "1")


def test_of_an_arrays_tasks_the_one_that_was_asked_for_is_taken():
    [task] = entries("26.05", "job-array-task.json")
    others = [{**task, "job_id": number, "array_task_id": {"set": True, "number": number}} for number in (6, 7)]
    document = json.dumps({"jobs": [*others, task]})

    assert [json_records.job(document, asked).array for asked in ("5", "5_2", "5_7", "6")] == [
        "5_2",
        "5_2",
        "5_7",
        "5_6",
    ]
    assert json_records.job(document, "5_9") is None
    assert json_records.job('{"jobs": []}', "5") is None
