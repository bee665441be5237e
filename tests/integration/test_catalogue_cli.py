"""``wheeltapper catalogue`` as a person types it."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from wheeltapper.cli.catalogue import app

RUNNER = CliRunner()

OWN = """
[[signature]]
id = "site.fan"
label = "hardware/thermal"
role = "root"
sources = ["kernel"]
anchors = ["fan stopped"]
summary = "a fan stopped"
examples = ["ipmi: fan stopped"]
near_misses = ["ipmi: fan ok"]
source = "our own machines"
"""


def ask(*words: str | Path):
    return RUNNER.invoke(app, [str(word) for word in words])


def site(folder: Path, text: str = OWN) -> Path:
    (folder / "fans.toml").write_text(text, encoding="utf-8")
    return folder


def test_list_names_every_signature_and_can_be_narrowed_to_a_label(tmp_path):
    everything = json.loads(ask("list", "--json").stdout)
    thermal = json.loads(ask("list", "--json", "--label", "hardware/thermal", "--folder", site(tmp_path)).stdout)
    assert len(everything) > 100
    assert {each["id"] for each in thermal} >= {"site.fan", "host.thermal"}
    assert "site.fan" in ask("list", "--folder", tmp_path).stdout


def test_show_tells_a_row_by_its_own_id():
    told = ask("show", "nvidia.xid.79")
    assert told.exit_code == 0
    assert "GPU has fallen off the bus" in told.stdout
    record = json.loads(ask("show", "cuda.oom", "--json").stdout)
    assert record["label"] == "software/oom"
    assert record["examples"]


def test_show_of_an_unknown_id_is_exit_code_3():
    told = ask("show", "no.such")
    assert told.exit_code == 3
    assert "there is no signature no.such" in told.stderr


def test_a_line_is_looked_up_in_the_source_it_comes_from(tmp_path):
    line = "ipmi: fan stopped"
    found = ask("test", site(tmp_path), "--line", line, "--source", "kernel")
    assert (found.exit_code, found.stdout) == (0, "site.fan: hardware/thermal (root): a fan stopped\n")
    assert ask("test", tmp_path, "--line", line).exit_code == 3


def test_right_files_are_counted_and_a_wrong_one_is_told_with_its_line(tmp_path):
    assert "all right" in ask("test", site(tmp_path)).stdout
    told = ask("test", site(tmp_path, OWN.replace("hardware/thermal", "hardware/fan")))
    assert told.exit_code == 2
    assert "fans.toml:2: site.fan: 'hardware/fan' is not a label" in told.stderr


def test_a_folder_that_is_not_there_is_exit_code_2(tmp_path):
    told = ask("test", tmp_path / "absent")
    assert told.exit_code == 2
    assert "is no folder" in told.stderr
