"""Node lists, log patterns, and the file that EpilogSlurmctld leaves."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheeltapper_slurm import hostlist, logs, spool

ENVIRONMENT = {
    "SLURM_JOB_ID": "14",
    "SLURM_ARRAY_JOB_ID": "12",
    "SLURM_ARRAY_TASK_ID": "3",
    "SLURM_JOB_NAME": "train me",
    "SLURM_JOB_USER": "ada",
    "SLURM_JOB_UID": "1000",
    "SLURM_JOB_GID": "100",
    "SLURM_JOB_PARTITION": "main",
    "SLURM_JOB_NODELIST": "n[1-2]",
    "SLURM_JOB_EXIT_CODE2": "7:0",
    "SLURM_JOB_RESTART_COUNT": "1",
    "SLURM_JOB_WORK_DIR": "/home/ada",
    "SLURM_JOB_STDOUT": "logs/%x-%A_%a-%j.out",
    "SLURM_JOB_ACCOUNT": "(null)",
}


def raw(**changes):
    values = {**ENVIRONMENT, **changes}
    return b"\0".join(f"{key}={value}".encode() for key, value in values.items() if value is not None) + b"\0"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n1", ("n1",)),
        ("node[1-3,7],gpu-a[01-02]", ("gpu-a01", "gpu-a02", "node1", "node2", "node3", "node7")),
        ("", ()),
        ("(null)", ()),
        ("rack[1-2]node[1-2]", ("rack1node1", "rack1node2", "rack2node1", "rack2node2")),
    ],
)
def test_node_lists(text, names):
    assert hostlist.expand(text) == names


@pytest.mark.parametrize("text", ["n[1-999999999]", "n[1", "a[1-60000]b[1-60000]"])
def test_a_wrong_or_enormous_node_list_is_an_error(text):
    with pytest.raises(ValueError, match="node list"):
        hostlist.expand(text)


@given(st.sets(st.integers(1, 400), min_size=1, max_size=60))
def test_folding_and_expanding_are_inverse(numbers):
    names = {f"node{number}" for number in numbers}

    assert set(hostlist.expand(hostlist.fold(names))) == names


def test_an_ended_task_of_an_array_is_acted_on_by_its_task_never_by_the_master():
    ended = spool.parse(raw(), at=1100.0)

    assert (ended.id, ended.target) == ("14", "12_3")
    assert (ended.uid, ended.gid, ended.nodes, ended.exit_code) == (1000, 100, ("n1", "n2"), 7)


def test_a_plain_job_is_its_own_target():
    ended = spool.parse(raw(SLURM_ARRAY_JOB_ID=None, SLURM_ARRAY_TASK_ID=None), at=1100.0)

    assert ended.target == "14"


@pytest.mark.parametrize("wrong", [b"", b"SLURM_JOB_ID=x\0", b"\xff\xfe", raw(SLURM_JOB_NODELIST="n[1")])
def test_a_spoiled_file_is_an_error(wrong):
    with pytest.raises(ValueError, match=r"."):
        spool.parse(wrong, at=0.0)


def test_values_may_hold_line_ends():
    assert spool.parse(raw(SLURM_JOB_NAME="two\nlines"), at=0.0).name == "two\nlines"


def test_half_written_files_are_not_taken(tmp_path):
    (tmp_path / ".14.1").write_bytes(raw())
    (tmp_path / "14.2").write_bytes(raw())

    assert [path.name for path in spool.waiting(tmp_path)] == ["14.2"]
    assert spool.waiting(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("", "/home/ada/slurm-12_3.out"),
        ("logs/%x-%A_%a-%j.out", "/home/ada/logs/train me-12_3-14.out"),
        ("/abs/%u/%N.log", "/abs/ada/n1.log"),
        ("%5j.out", "/home/ada/00014.out"),
        ("%99j.out", "/home/ada/0000000014.out"),
        ("100%%.out", "/home/ada/100%.out"),
        (r"\%j.out", "/home/ada/%j.out"),
        ("%t-%n.out", "/home/ada/0-0.out"),
    ],
)
def test_a_log_pattern_is_filled_in_as_slurm_does(pattern, path):
    ended = spool.parse(raw(SLURM_JOB_STDOUT=pattern), at=0.0)

    assert logs.paths(ended, "n1") == (path,)


def test_standard_error_is_read_too_when_it_has_a_file_of_its_own():
    ended = replace(spool.parse(raw(), at=0.0), stdout="o.%j", stderr="e.%j")

    assert logs.paths(ended, "n1") == ("/home/ada/o.14", "/home/ada/e.14")


def test_nothing_is_read_from_dev_null():
    assert logs.paths(replace(spool.parse(raw(), at=0.0), stdout="/dev/null"), "n1") == ()


def test_logs_of_single_ranks_are_looked_for_near_the_jobs_own():
    ended = replace(spool.parse(raw(), at=0.0), stdout="/scratch/o.%j", stderr="logs/e.%j")

    assert logs.near(ended, logs.paths(ended, "n1")) == ("/home/ada", "/scratch", "/home/ada/logs")
    assert logs.near(replace(ended, work_dir="/"), ("/o.14",)) == ()
    assert logs.names(ended) == ("14", "12_3")
    assert logs.names(replace(ended, target="14")) == ("14",)
