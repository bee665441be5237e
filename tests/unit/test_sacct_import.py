from __future__ import annotations

import json

import pytest

from wheeltapper.attempt import Ending
from wheeltapper.errors import WheeltapperError
from wheeltapper.ledger.sacct import FIELDS, attempts, gpus

TABLE = f"""\
{FIELDS.replace(",", "|")}
101|101|ada|gpu|COMPLETED|0:0|1700000000|1700003600|node[1-2]|billing=16,cpu=16,gres/gpu=8,node=2||None|train
101.batch|101.batch||gpu|COMPLETED|0:0|1700000000|1700003600|node1|cpu=8|||batch
102|102|ada|gpu|NODE_FAIL|0:0|1700000000|1700000600|node[3-4]|gres/gpu:h100=16|node4|None|a|name|with=bars
103|90_7|bob|gpu|CANCELLED by 1000|0:15|1700000100|1700000200|node5|||None|array
104|104|bob|gpu|PENDING|0:0|Unknown|Unknown|None assigned|||Priority|waits
105|105|bob|gpu|CANCELLED|0:0|Unknown|1700000200|None assigned|||None|never ran
106|106|bob|gpu|RUNNING|0:0|1700000100|Unknown|node6|||None|runs
"""


def test_a_table_gives_what_ran_and_ended_with_the_keys_of_the_service():
    found = list(attempts(TABLE, "sacct.txt"))

    assert [(each.key, each.job, each.ending, each.gpus) for each in found] == [
        ("101@1700000000", "101", Ending.COMPLETED, 8),
        ("102@1700000000", "102", Ending.NODE_FAIL, 16),
        ("103@1700000100", "90_7", Ending.CANCELLED, 0),
    ]
    assert found[1].nodes == ("node3", "node4")
    assert (found[1].failed_node, found[1].name) == ("node4", "a|name|with=bars")
    assert (found[2].signal, found[2].user) == (15, "bob")


def test_json_of_an_old_and_of_a_new_release_gives_the_same():
    old = {
        "job_id": 101,
        "name": "train",
        "user": "ada",
        "partition": "gpu",
        "nodes": "node[1-2]",
        "state": {"current": "FAILED", "reason": "None"},
        "exit_code": {"return_code": 1, "status": "ERROR"},
        "time": {"start": 1700000000, "end": 1700003600},
        "array": {"job_id": 0, "task_id": None},
        "tres": {
            "allocated": [{"type": "cpu", "name": None, "count": 16}, {"type": "gres", "name": "gpu", "count": 8}]
        },
    }
    new = {
        **old,
        "state": {"current": ["FAILED"], "reason": "None"},
        "exit_code": {"return_code": {"set": True, "number": 1}, "signal": {"id": {"set": False, "number": 0}}},
        "array": {"job_id": 0, "task_id": {"set": False, "number": 0}},
    }

    (first,), (second,) = (list(attempts(json.dumps({"jobs": [job]}), "x")) for job in (old, new))

    assert first == second
    assert (first.key, first.exit_code, first.gpus, first.ending) == ("101@1700000000", 1, 8, Ending.FAILED)


def test_json_of_a_task_of_an_array_and_of_a_job_that_never_ran():
    task = {
        "job_id": 103,
        "state": {"current": ["TIMEOUT"]},
        "time": {"start": 1, "end": 2},
        "array": {"job_id": 90, "task_id": {"set": True, "number": 7}},
    }
    waits = {"job_id": 104, "state": {"current": ["PENDING"]}, "time": {"start": 0, "end": 0}}

    (found,) = attempts(json.dumps({"jobs": [task, waits]}), "x")

    assert (found.key, found.job, found.ending) == ("103@1", "90_7", Ending.TIME_LIMIT)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", r"s\.txt:1: no JobIDRaw, State, Start, End, NodeList; ask for: SLURM_TIME_FORMAT=%s sacct"),
        ("JobID  State\n1 FAILED\n", r"s\.txt:1: no JobIDRaw"),
        (
            "JobIDRaw|State|Start|End|NodeList\n1|FAILED|2026-01-01T00:00:00|2026-01-01T00:00:01|n1\n",
            r"s\.txt:2: the time 2026-01-01T00:00:00 names no zone",
        ),
        ("{", r"s\.txt: this is no output of `sacct --json`"),
        ('{"jobs": [{"job_id": 1}]}', r"s\.txt: jobs\[0\] is no job of `sacct --json`"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(text, error):
    with pytest.raises(WheeltapperError, match=error):
        list(attempts(text, "s.txt"))


def test_gpus_of_several_types_add_up_unless_the_sum_is_there():
    assert gpus("gres/gpu:a100=2,gres/gpu:h100=4") == 6
    assert gpus("cpu=1,gres/gpu=8,gres/gpu:h100=8") == 8
    assert gpus("cpu=1") == 0
