"""The report in all its forms, from a ledger in each of the two databases."""

from __future__ import annotations

import csv
import io
import json
import time
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from tests.integration.browser import complaints, look
from tests.integration.ledger.made import interruption
from tests.unit.make import attempt
from wheeltapper.cli.app import app
from wheeltapper.errors import WheeltapperError
from wheeltapper.ledger import writing
from wheeltapper.ledger.model import Outcome, Quarantine
from wheeltapper.ledger.store import Ledger
from wheeltapper.ledger.survey import survey
from wheeltapper.report.page import page
from wheeltapper.report.text import kinds_csv, markdown

DAY_S = 86_400.0
UNTIL = 20_000 * DAY_S + 5000
SINCE = UNTIL - 40 * DAY_S

EVIL = "</title><script>window.ran = true</script><img src=x onerror='window.ran = true'>"


def fill(ledger, until=UNTIL):
    """Forty days, the faults at one hour of the day: three kinds, a repeat offender, a job in three attempts."""
    made = []
    for day in range(1, 40):
        at = until - day * DAY_S
        made.append(interruption(f"{day}@1", at=at, node="bad-node" if day % 3 == 0 else f"n{day}", ran_s=50_000.0))
        made.append(interruption(f"u{day}@1", at=at - day * 2000, label="software/user_code", ran_s=9000.0))
    made.append(interruption("900@1", at=until - 30_000, ran_s=20_000.0, label="network/link_down"))
    evil = interruption("900@2", at=until - 20_000, ran_s=5000.0, label="unknown/unknown")
    made.append(replace(evil, diagnosis=replace(evil.diagnosis, sentence=EVIL)))
    with ledger.database.transaction():
        writing.write(ledger.database, ledger.cluster, made, writing.OURS, 3600)
    ledger.record_run(attempt(key="900@3", job="900", start=until - 19_000, end=until - 1000, gpus=16))
    ledger.record_run(attempt(key="5000@1", job="5000", nodes=tuple("abcdefgh"), end=until - 10, start=until - 90_000))
    reason = "wheeltapper: hardware/gpu_xid xid=79 gpu=0000:3b:00 at=2026-11-29T12:01:03Z: reboot"
    ledger.record_quarantine(
        Quarantine("bad-node", "b:1", "hardware/gpu_xid", "xid=79", reason, "12", until - 50, Outcome.DONE)
    )


@pytest.fixture
def told(ledger):
    fill(ledger)
    return survey(ledger, SINCE, UNTIL, "900")


def test_a_survey_counts_rates_and_names(told):
    assert told.totals.interruptions == 80
    assert {each.name: each.failures for each in told.sizes} == {"up to 2 nodes": 41, "up to 8 nodes": 0}
    assert told.sizes[1].mttf.value is None
    assert [each.node for each in told.lemons] == ["bad-node"]
    assert told.nodes[0].node == "bad-node"
    assert sum(told.nodes[0].counts) == 13
    assert sum(count for _, counts in told.days for _, count in counts) == 80
    assert [each.name for each in told.machines] == ["node", "GPU"]
    assert told.machines[0].failures == 39


def test_the_story_of_a_job_is_its_attempts_and_where_its_time_went(told):
    assert [each.label for each in told.job.attempts] == ["network/link_down", "unknown/unknown", ""]
    parts = told.job.wall_time
    assert parts.productive == 5 * 3600 + 3600 + 18_000
    assert parts.lost == 2000 + 1400
    assert parts.waiting == 5000 + 1000
    assert parts.whole == UNTIL - 1000 - (UNTIL - 50_000)


def test_a_job_that_nobody_recorded_is_an_error(ledger):
    with pytest.raises(WheeltapperError, match="nothing is recorded of job 77"):
        survey(ledger, SINCE, UNTIL, "77")


def test_the_page_opens_in_a_browser_with_all_its_plots_and_nothing_spills_or_runs(told, tmp_path):
    text = page(told)
    seen = look(text, tmp_path)

    assert seen["headings"] == [
        "cluster: what stopped jobs",
        *("What it was", "Day by day", "How long it holds", "Jobs, by size", "Nodes, by partition", "Machines"),
        *("Which nodes", "Repeat offenders", "What the record suggests", "Job 900", "Nodes taken out"),
    ]
    assert len(seen["plots"]) == 6
    assert all(width > 500 and height > 40 for width, height in seen["plots"])
    assert seen["spilled"] == []
    assert not seen["wide"]
    assert not seen["ran"], "text of a log was run as a script"
    assert seen["bars"] > 80
    assert "bad-node" in seen["text"]
    assert EVIL in " ".join(seen["text"].split()), "it is shown as the text that it is"
    assert complaints(text, tmp_path) == [], "nothing is asked for that the page's own rules forbid"


def test_a_page_of_an_empty_ledger_opens_too(ledger, tmp_path):
    seen = look(page(survey(ledger, SINCE, UNTIL)), tmp_path)
    assert "Nothing was interrupted." in seen["text"]
    assert seen["spilled"] == []


def test_the_summary_is_a_table_of_kinds_and_what_follows_from_them(told):
    text = markdown(told)
    assert text.startswith("# cluster: what stopped jobs, ")
    assert "| hardware/gpu_xid | 39 | 48.8% |" in text
    assert "- bad-node has had 13 faults" in text
    assert "| up to 8 nodes | 0 |" in text
    assert all(line.count("|") in {0, 5, 8} for line in text.splitlines())


def test_the_csv_holds_numbers_as_they_are(told):
    rows = list(csv.DictReader(io.StringIO(kinds_csv(told))))
    assert [row["label"] for row in rows][:2] == ["hardware/gpu_xid", "software/user_code"]
    assert float(rows[0]["gpu_hours"]) == pytest.approx(39 * 16 * 50_000 / 3600)
    assert sum(int(row["count"]) for row in rows) == 80


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "wheeltapper.toml"
    path.write_text(f'[ledger]\npath = "{tmp_path / "ledger.db"}"\n')
    ledger = Ledger(tmp_path / "ledger.db")
    fill(ledger, time.time())
    ledger.close()
    return path


def run(*words):
    return CliRunner().invoke(app, ["report", *(str(word) for word in words)])


def test_the_command_prints_and_writes_every_form(tmp_path, config):
    shown = run("--config", config)
    assert "hardware/gpu_xid" in shown.output
    assert "bad-node: wheeltapper: hardware/gpu_xid" in shown.output
    assert json.loads(run("--config", config, "--json").output)["kinds"][0]["count"] == 29
    assert run("--config", config, "--csv").output.startswith("label,count,share")
    assert run("--config", config, "--markdown", "--days", 60).output.startswith("# cluster")
    written = run("--config", config, "--html", tmp_path / "out.html", "--job", 900)
    assert "tells of" in written.output
    assert "Job 900" in (tmp_path / "out.html").read_text()


def test_wrong_options_and_places_are_exit_code_2(tmp_path, config):
    assert run("--config", config, "--csv", "--json").exit_code == 2
    assert run("--config", config, "--html", tmp_path / "no" / "x.html").exit_code == 2
    missing = run("--config", config, "--html", tmp_path / "x.html", "--job", 77)
    assert (missing.exit_code, "nothing is recorded of job 77" in missing.output) == (2, True)
