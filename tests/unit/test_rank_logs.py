"""Logs of single ranks, which nobody tells us of."""

from __future__ import annotations

import os

import pytest

from wheeltapper_hooks.agent import rank_logs

BEGAN = 1_795_953_600.0


@pytest.fixture
def find(tmp_path):
    """Find the logs of job 4711 (task 47_3 of an array) among files that are made now."""

    def make(*paths, old=(), known=(), names=("4711", "47_3")):
        for path in (*paths, *old):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / path).write_text("x")
        for each in (tmp_path, *tmp_path.rglob("*")):
            os.utime(each, (BEGAN + 10, BEGAN + 10))
        for path in old:
            os.utime(tmp_path / path, (BEGAN - 60, BEGAN - 60))
        found = rank_logs.find([str(tmp_path)] * 2, names, BEGAN, [str(tmp_path / each) for each in known])
        return sorted(str(each.relative_to(tmp_path)) for each in found)

    return make


def test_files_with_the_jobs_number_in_their_name_or_folder_are_its_own(find):
    own = ("rank-4711-0.out", "logs/train_4711.3.err", "run-4711/rank0/out.txt", "array-47_3.out")

    assert find(*own, "rank-14711-0.out", "rank-47110.out", "notes.txt", "checkpoint-4711.pt") == sorted(own)


def test_torchruns_folders_are_known_by_their_shape(find):
    own = "logs/none_ab12/attempt_0/1/stderr.log"

    assert find(own, "logs/none_ab12/attempt_0/1/error.json", "logs/x/1/stderr.log") == [own]


def test_what_was_written_before_the_job_began_is_anothers(find):
    assert find("a-4711.out", old=("b-4711.out", "log/attempt_0/0/stdout.log")) == ["a-4711.out"]


def test_the_jobs_own_logs_are_not_read_twice(find):
    assert find("slurm-4711.out", "rank-4711.out", known=("slurm-4711.out",)) == ["rank-4711.out"]


def test_without_a_number_nothing_is_anyones(find):
    assert find("a-4711.out", names=()) == []


def test_links_are_not_followed(find, tmp_path):
    (tmp_path / "target.txt").write_text("x")
    (tmp_path / "rank-4711.out").symlink_to(tmp_path / "target.txt")
    (tmp_path / "4711").symlink_to(tmp_path)

    assert find("a-4711.out") == ["a-4711.out"]


def test_a_search_is_bounded_in_names_in_depth_and_in_files(find, monkeypatch):
    deep = "/".join(["d"] * (rank_logs.DEPTH_MAX + 1)) + "/a-4711.out"
    assert find(deep) == []
    monkeypatch.setattr(rank_logs, "RANK_FILES_MAX", 3)
    assert len(find(*(f"a-4711.{number}" for number in range(9)))) == 3
    monkeypatch.setattr(rank_logs, "ENTRIES_MAX", 0)
    assert find("a-4711.out") == []


def test_a_folder_that_is_not_there_has_no_logs():
    assert rank_logs.find(["/nowhere/at/all"], ["4711"], BEGAN, ()) == []
