from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from tests.integration.browser import complaints, look
from wheeltapper.cli.app import app

KIND = {"Level": "Hardware Failure", "Class": "GPU", "Desc": "GPU Lost"}


@pytest.fixture
def trace(tmp_path):
    """Four nodes; one fails on the first, the third and the fifth day, for an hour each time."""
    path = tmp_path / "trace.json"
    events = [
        {"node_id": "a", "event_time": day + part / 24, "event_type": f"fault_{what}", "fault_type": KIND}
        for day in (0.5, 2.5, 4.5)
        for part, what in ((0, "start"), (1, "end"))
    ]
    path.write_text(json.dumps(events))
    return path


def run(*words):
    return CliRunner().invoke(app, ["simulate", *(str(word) for word in words)], terminal_width=200)


def test_the_table_holds_every_strategy_and_the_notes_stand_below(trace):
    shown = run(trace, "--nodes", 4, "--gpus", 24, "--write-s", 0, "--seeds", 2)

    assert shown.exit_code == 0, shown.output
    words = " ".join(shown.output.split())
    for told in (
        "Wheeltapper",
        "0 s a checkpoint",
        "clairvoyant",
        "Closed form for nodes that fail at random",
        "After a repair: 0 of 2 failed again within 1 days",
    ):
        assert told in words
    assert "24 GPUs, 60 minutes between checkpoints, 2 seeds" in words


def test_json_holds_the_same_for_each_cost_of_a_checkpoint(trace):
    told = json.loads(
        run(trace, "--nodes", 4, "--gpus", 24, "--write-s", 0, "--write-s", 60, "--seeds", 1, "--json").output
    )

    assert {line["write_s"] for line in told["lines"]} == {0.0, 60.0}
    assert told["lines"][0]["ettr"] > 0.9
    assert told["foresight"]["most_share"] == 0.0


def test_a_job_that_is_too_large_and_a_file_that_is_none_are_exit_code_2(trace, tmp_path):
    assert run(trace, "--nodes", 4, "--gpus", 64).exit_code == 2
    assert run(tmp_path / "none.json").exit_code == 2


def test_the_page_shows_what_the_table_says_and_nothing_spills_over(trace, tmp_path):
    path = tmp_path / "page.html"
    shown = run(trace, "--nodes", 4, "--gpus", 24, "--write-s", 0, "--write-s", 60, "--seeds", 2, "--html", path)
    assert shown.exit_code == 0, shown.output

    seen = look(path.read_text(), tmp_path)

    assert seen["headings"][0] == "What the policy would have saved"
    assert len(seen["plots"]) == 4
    assert all(width > 0 and height > 0 for width, height in seen["plots"])
    assert (seen["spilled"], seen["wide"]) == ([], False)
    assert "clairvoyant placement, 60 s a checkpoint" in seen["text"]
    assert complaints(path.read_text(), tmp_path) == []


def test_a_page_that_cannot_be_written_is_exit_code_2(trace, tmp_path):
    path = tmp_path / "nowhere" / "page.html"
    shown = run(trace, "--nodes", 4, "--gpus", 24, "--write-s", 0, "--seeds", 1, "--html", path)

    assert shown.exit_code == 2
    assert f"--html: {path} cannot be written" in shown.output.replace("\n", "")
