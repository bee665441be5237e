"""``wheeltapper config show`` as a person and as a program read it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from wheeltapper import config
from wheeltapper.cli.config import app
from wheeltapper_slurm import choosing
from wheeltapper_slurm.choosing import Choice

RUNNER = CliRunner()


@pytest.fixture
def show(tmp_path, monkeypatch):
    """Run ``config show`` on a configuration, on a machine without Slurm and, unless told otherwise, pyslurm."""
    monkeypatch.setenv("PATH", str(tmp_path))

    def run(text, *options, installed=False):
        monkeypatch.setattr(choosing.importlib.util, "find_spec", lambda _: "a spec" if installed else None)
        file = tmp_path / "wheeltapper.toml"
        file.write_text(text)
        return RUNNER.invoke(app, ["show", "--config", str(file), *options])

    return run


def test_what_is_printed_is_still_the_configuration_alone(show):
    said = show("cluster = 'lab'\n")

    assert config.parse(said.stdout, "shown.json") == config.parse("cluster = 'lab'\n")
    assert said.stderr == "slurm.client in use: command (pyslurm is not installed)\n"


def test_the_choice_stands_in_the_json_too(show):
    said = show("[slurm]\nclient = 'command'\n", "--json")

    assert json.loads(said.stdout)["in_use"] == {
        "slurm.client": {"used": "command", "why": "the configuration says so"}
    }
    assert said.stderr == ""


def test_a_pyslurm_that_was_asked_for_and_is_not_there_is_told_and_no_failure(show):
    said = show("[slurm]\nclient = 'pyslurm'\n")

    assert said.exit_code == 0
    assert said.stderr == "slurm.client in use: none (slurm.client is pyslurm, but pyslurm is not installed)\n"


def test_a_machine_without_slurm_gets_an_answer(show):
    """pyslurm is there, or looks like it; it cannot be imported, or there is no slurmctld to compare it with."""
    said = show("", "--json", installed=True)

    choice = Choice(**json.loads(said.stdout)["in_use"]["slurm.client"])
    assert choice.used == "command"
    assert choice.why.startswith(("pyslurm cannot be used", "slurmctld's release is not known"))
