from __future__ import annotations

import json
from contextlib import closing

import pytest
from typer.testing import CliRunner

from tests.integration.ledger.made import interruption
from tests.unit.test_kubernetes_import import a_list, an_object
from tests.unit.test_sacct_import import TABLE
from wheeltapper.cli.app import app
from wheeltapper.ledger.importing import take_in
from wheeltapper.ledger.sacct import attempts
from wheeltapper.ledger.store import Ledger
from wheeltapper.ledger.totals import totals


def run(*words, **options):
    return CliRunner().invoke(app, [str(word) for word in words], **options)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "wheeltapper.toml"
    path.write_text(f'cluster = "alpha"\n[ledger]\npath = "{tmp_path / "ledger.db"}"\n')
    return path


def test_an_import_labels_what_the_end_alone_says_and_counts_what_completed(ledger):
    done = take_in(ledger, attempts(TABLE, "x"), "sacct", 1800.0)

    assert (done.interruptions, done.runs, done.given) == (2, 1, 3)
    sums = totals(ledger, 0.0, 2e9)
    assert {kind.label: kind.count for kind in sums.kinds} == {"hardware/node_down": 1, "scheduler/cancelled": 1}
    assert [(each.node, each.suspected) for each in sums.nodes] == [("node4", 1)]
    assert sum(each.runs for each in sums.exposures) == 1


def test_a_second_import_and_what_the_service_has_recorded_change_nothing(ledger):
    known = interruption("102@1700000000", at=1700000600.0)
    ledger.record(known, [])

    take_in(ledger, attempts(TABLE, "x"), "sacct", 1800.0)
    again = take_in(ledger, attempts(TABLE, "x"), "sacct", 1800.0)

    assert (again.interruptions, again.runs) == (0, 0)
    assert ledger.of_attempt("102@1700000000") == [known]
    assert totals(ledger, 0.0, 2e9).interruptions == 2


def test_the_command_says_what_was_new_and_explain_finds_it(tmp_path, config):
    table = tmp_path / "sacct.txt"
    table.write_text(TABLE)

    first = run("ledger", "import-sacct", table, "--config", config)
    second = run("ledger", "import-sacct", "-", "--config", config, input=TABLE)

    assert "3 attempts had run and ended: 2 interruptions and 1 completed runs are new" in first.output
    assert "0 interruptions and 0 completed runs are new, 3 were recorded before" in second.output
    told = run("explain", "102", "--config", config, "--json")
    assert json.loads(told.output)[0]["diagnosis"]["label"] == "hardware/node_down"


def test_a_wrong_table_is_exit_code_2_and_names_the_line(tmp_path, config):
    table = tmp_path / "sacct.txt"
    table.write_text("JobID\n1\n")

    done = run("ledger", "import-sacct", table, "--config", config)

    assert done.exit_code == 2
    assert f"{table}:1: no JobIDRaw" in done.output
    assert run("ledger", "import-sacct", tmp_path / "none", "--config", config).exit_code == 2


def test_what_a_cluster_holds_is_taken_over_as_it_stands_and_once(tmp_path, config):
    objects = tmp_path / "interruptions.json"
    objects.write_text(a_list(an_object("a/1"), an_object("a/2")))

    first = run("ledger", "import-kubernetes", objects, "--config", config)
    second = run(
        "ledger", "import-kubernetes", "-", "--config", config, input=a_list(an_object("a/2"), an_object("a/3"))
    )

    assert "2 interruptions are new, 0 were recorded before" in first.output
    assert "1 interruptions are new, 1 were recorded before" in second.output
    with closing(Ledger(tmp_path / "ledger.db", cluster="alpha")) as ledger:
        assert ledger.of_attempt("a/2") == [interruption("a/2")]
        assert totals(ledger, 0.0, 2e9).interruptions == 3


def test_one_object_that_is_no_record_is_named_and_nothing_is_recorded(tmp_path, config):
    objects = tmp_path / "interruptions.json"
    objects.write_text(a_list(an_object("a/1"), an_object(record={})))

    done = run("ledger", "import-kubernetes", objects, "--config", config)

    assert done.exit_code == 2
    assert "items[1] (ml/bert-0): spec.record.attempt" in done.output
    with closing(Ledger(tmp_path / "ledger.db", cluster="alpha")) as ledger:
        assert totals(ledger, 0.0, 2e9).interruptions == 0


def test_the_merge_command_takes_over_another_file(tmp_path, config):
    other = Ledger(tmp_path / "other.db", cluster="beta")
    other.record(interruption(), [])
    other.close()

    assert "1 interruptions are new." in run("ledger", "merge", tmp_path / "other.db", "--config", config).output
    assert "0 interruptions are new." in run("ledger", "merge", tmp_path / "other.db", "--config", config).output
    assert run("ledger", "merge", tmp_path / "none.db", "--config", config).exit_code == 2


def test_the_forget_command_drops_what_is_old(tmp_path, config):
    ledger = Ledger(tmp_path / "ledger.db", cluster="alpha")
    ledger.record(interruption(), [])
    ledger.close()

    assert "1 interruptions of before are dropped." in run("ledger", "forget", "--days", 30, "--config", config).output


def test_a_server_that_is_away_is_a_sentence_and_exit_code_2(tmp_path):
    config = tmp_path / "wheeltapper.toml"
    config.write_text(f'[ledger]\ndsn = "host={tmp_path}"\n')

    done = run("report", "--config", config)

    assert done.exit_code == 2
    assert "wheeltapper report: the ledger in PostgreSQL" in done.output
