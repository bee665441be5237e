"""Metrics, rules and dashboard: what is told, that Prometheus' own tool accepts it, and that all of it fits together."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import socket
import subprocess
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from tests.integration.ledger.made import interruption
from tests.integration.node import until
from tests.unit.make import xid79
from tests.unit.operator.fake import FakeApi
from tests.unit.operator.test_gang import NOW, ORDER, PAST, merged, pytorch
from tests.unit.slurm.fake import FakeSlurm
from tests.unit.slurm.fake import node as slurm_node
from tests.unit.slurm.test_names import raw
from wheeltapper import config, metrics
from wheeltapper.labels import ALL
from wheeltapper.ledger.model import Act, Outcome, Quarantine
from wheeltapper.ledger.store import Ledger
from wheeltapper_hooks.agent import metrics as agent_metrics
from wheeltapper_operator import gang
from wheeltapper_operator import metrics as operator_metrics
from wheeltapper_operator.jobs import PYTORCH, job
from wheeltapper_operator.operator import Operator
from wheeltapper_slurm import metrics as service_metrics
from wheeltapper_slurm import spool
from wheeltapper_slurm.arrivals import Arrivals
from wheeltapper_slurm.healths import Healths
from wheeltapper_slurm.journal import Journal, OpenAttempt
from wheeltapper_slurm.parts import Parts
from wheeltapper_slurm.quarantine import Gate

HERE = Path(__file__).parent
MONITORING = HERE.parents[2] / "monitoring"
RUNBOOK = HERE.parents[2] / "docs" / "runbooks" / "alerts.md"
STATUS = {"mode": "full", "verdict": {"state": "ok"}, "undelivered": 2, "trouble": ""}
TESTS = ("rules_test.yaml", "rules_days_test.yaml")
NAME = re.compile(r"\bwheeltapper_[a-z_]+")

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None,
    reason="promtool is not installed; on Debian: apt-get install --no-install-recommends prometheus",
)


@pytest.fixture
def parts(tmp_path):
    settings = config.parse(f"[controller]\nspool_dir = '{tmp_path}'\n[ledger]\npath = '{tmp_path}/ledger.db'\n")
    slurm, ledger, journal = FakeSlurm(slurm_node("n1")), Ledger(settings.ledger.path), Journal(tmp_path / "journal.db")
    gate = Gate(slurm, ledger, settings.policy)
    yield Parts(settings, slurm, ledger, journal, gate, Arrivals(), Healths(120.0), lambda: 5000.0)
    ledger.close()
    journal.close()


def agent_text():
    answers = {("prolog", 0): 7, ("epilog", 1): 1}
    return metrics.exposition(lambda: agent_metrics.families(STATUS, answers)).decode()


def service_text(parts):
    return metrics.exposition(lambda: service_metrics.families(parts)).decode()


def operator_text(operator):
    return metrics.exposition(lambda: operator_metrics.families(operator)).decode()


@pytest.fixture
def operator():
    """An operator that leads: n1 is out, one attempt waits for its diagnosis, and one gang is to run again."""
    made = Operator(FakeApi(), config.parse("[policy]\nmode = 'full'\n"), "me")
    made.parts = replace(made.parts, clock=lambda: NOW + 100.0)
    made.leader.leads = True
    taint = {"key": "wheeltapper.dev/unhealthy", "value": "hardware.gpu_xid", "effect": "NoSchedule"}
    meta = {"name": "n1", "uid": "n1", "resourceVersion": "1"}
    made.keeper.nodes.put({"metadata": meta, "spec": {"taints": [taint]}})
    item = pytorch()
    moving = {"metadata": {"name": "moving", "uid": ORDER.uid}}
    made.jobs[0].jobs.put(merged(merged(item, gang.concluded(job(item, PYTORCH), ORDER, PAST, "x")), moving))
    made.parts.counts.interruptions["hardware/gpu_xid"] += 2
    made.parts.counts.quarantines["done"] += 1
    return made


def test_the_operator_tells_what_it_has_done_and_what_waits(operator):
    told = operator_text(operator).splitlines()

    for line in (
        'wheeltapper_interruptions_total{label="hardware/gpu_xid"} 2.0',
        'wheeltapper_interruptions_total{label="software/oom"} 0.0',
        'wheeltapper_quarantines_total{outcome="done"} 1.0',
        'wheeltapper_quarantines_total{outcome="failed"} 0.0',
        'wheeltapper_nodes_out{label="hardware/gpu_xid"} 1.0',
        "wheeltapper_open_requeues 1.0",
        "wheeltapper_oldest_open_requeue_seconds 40.0",
        "wheeltapper_open_attempts 0.0",
        "wheeltapper_operator_leads 1.0",
        "wheeltapper_operator_writes_total 0.0",
    ):
        assert line in told


def test_an_operator_that_does_not_lead_tells_of_nothing_that_waits(operator):
    operator.leader.leads = False
    told = operator_text(operator).splitlines()

    assert "wheeltapper_open_requeues 0.0" in told
    assert "wheeltapper_oldest_open_requeue_seconds 0.0" in told
    assert "wheeltapper_operator_leads 0.0" in told


def test_the_service_tells_of_work_in_hand_and_of_the_record(parts):
    parts.ledger.record(interruption(), [Act("requeue", "12"), Act("annotate", "12", outcome=Outcome.FAILED)])
    parts.ledger.record(interruption("13@1", label="software/oom"), [])
    finding = xid79()
    parts.ledger.record_quarantine(
        Quarantine("n1", finding.key, finding.label, "", "r", None, 10.0, Outcome.FAILED, "budget")
    )
    parts.journal.open(OpenAttempt("14@1", spool.parse(raw(), at=4400.0), 1.0, "n1", 4460.0))

    told = service_text(parts).splitlines()

    for line in (
        'wheeltapper_interruptions_total{label="hardware/gpu_xid"} 1.0',
        'wheeltapper_lost_gpu_seconds_total{label="software/oom"} 28800.0',
        'wheeltapper_acts{outcome="planned"} 1.0',
        'wheeltapper_acts{outcome="failed"} 1.0',
        'wheeltapper_quarantines_total{outcome="failed"} 1.0',
        'wheeltapper_quarantines_total{outcome="done"} 0.0',
        "wheeltapper_open_attempts 1.0",
        "wheeltapper_oldest_open_attempt_seconds 600.0",
        "wheeltapper_ledger_up 1.0",
    ):
        assert line in told


def test_a_record_that_cannot_be_read_is_told_and_the_rest_is_left_out(parts):
    parts.ledger.close()
    told = service_text(parts)
    assert "wheeltapper_ledger_up 0.0" in told
    assert "wheeltapper_interruptions" not in told


def test_the_agent_tells_its_verdict_and_its_answers():
    told = agent_text().splitlines()
    assert 'wheeltapper_node_verdict{state="ok"} 1.0' in told
    assert 'wheeltapper_node_verdict{state="fail"} 0.0' in told
    assert 'wheeltapper_hook_answers_total{code="1",hook="epilog"} 1.0' in told
    assert "wheeltapper_agent_undelivered_reports 2.0" in told


def test_labels_are_few_whatever_the_record_holds(parts, operator):
    for number in range(60):
        parts.ledger.record(interruption(f"{number}@1", label=sorted(ALL)[number % len(ALL)], node=f"n{number}"), [])
    lines = [line for line in service_text(parts).splitlines() if not line.startswith("#")]
    assert len(lines) < 2 * len(ALL) + 20
    lines += (of_operator := [line for line in operator_text(operator).splitlines() if not line.startswith("#")])
    assert len(of_operator) < 2 * len(ALL) + 20
    assert not any(re.search(r"\b(?:node|job|user|gpu)=", line) for line in lines)


def test_only_get_metrics_is_answered():
    async def scenario():
        server = await metrics.serve("127.0.0.1", 0, lambda: agent_metrics.families(STATUS, {}))
        port = server.sockets[0].getsockname()[1]
        answers = [
            await asyncio.to_thread(_status, f"http://127.0.0.1:{port}{path}", method)
            for path, method in (("/metrics", "GET"), ("/metrics?x=1", "GET"), ("/", "GET"), ("/metrics", "POST"))
        ]
        server.close()
        return answers

    assert asyncio.run(scenario()) == [200, 200, 404, 405]


def _status(url, method):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method)) as answer:
            answer.read()
            return answer.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_an_agent_shows_its_metrics_where_it_is_told_to(node):
    free = _free_port()
    node.configure(metrics={"agent_port": free})
    node.start()

    def shown():
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{free}/metrics") as answer:
                return answer.read().decode()
        except OSError:
            return ""

    until(lambda: 'wheeltapper_node_verdict{state="ok"} 1.0' in shown(), "the metrics of the agent")


def _free_port():
    with socket.socket() as any_port:
        any_port.bind(("127.0.0.1", 0))
        return any_port.getsockname()[1]


@needs_promtool
@pytest.mark.parametrize("which", ["agent", "service", "operator"])
def test_promtool_finds_nothing_to_say_against_the_metrics(which, parts, operator):
    text = {"agent": agent_text(), "service": service_text(parts), "operator": operator_text(operator)}[which]
    done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_promtool
def test_every_alert_fires_when_it_should_and_a_quiet_cluster_fires_none(tmp_path):
    shutil.copy(MONITORING / "rules.yaml", tmp_path)
    for name in TESTS:
        shutil.copy(HERE / name, tmp_path)
    for words in (["check", "rules", "rules.yaml"], ["test", "rules", *TESTS]):
        done = subprocess.run(["promtool", *words], cwd=tmp_path, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tried_and_has_a_runbook():
    rules = yaml.safe_load((MONITORING / "rules.yaml").read_text())["groups"][0]["rules"]
    tried = [test for name in TESTS for test in yaml.safe_load((HERE / name).read_text())["tests"]]
    fired = {each["alertname"] for test in tried for each in test["alert_rule_test"] if each["exp_alerts"]}
    quiet = {each["alertname"] for each in tried[0]["alert_rule_test"]}
    headings = {line.removeprefix("## ") for line in RUNBOOK.read_text().splitlines() if line.startswith("## ")}
    names = {rule["alert"] for rule in rules}

    assert fired == quiet == headings == names
    for rule in rules:
        assert rule["annotations"]["runbook_url"] == f"docs/runbooks/alerts.md#{rule['alert'].lower()}"


def test_rules_and_dashboard_ask_only_for_metrics_that_are_told(parts, operator):
    told = set(NAME.findall(agent_text() + service_text(parts) + operator_text(operator)))
    parts.ledger.record(interruption(), [])
    told |= set(NAME.findall(service_text(parts)))
    board = json.loads((MONITORING / "dashboard.json").read_text())
    rules = yaml.safe_load((MONITORING / "rules.yaml").read_text())["groups"][0]["rules"]
    asked = " ".join(
        [target["expr"] for panel in board["panels"] for target in panel["targets"]] + [rule["expr"] for rule in rules]
    )

    assert set(NAME.findall(asked)) - told == set()
    everything = {name for name in told if not name.endswith(("_created",))}
    assert {re.sub(r"_total$", "", name) for name in everything} == {
        re.sub(r"_total$", "", name) for name in NAME.findall(asked)
    }, "a metric that nothing shows is one too many"
