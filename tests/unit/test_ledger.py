from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest

from tests.unit.make import attempt, diagnosis, xid79
from tests.unit.test_release import out
from wheeltapper.config import Mode
from wheeltapper.errors import LedgerError, WheeltapperError
from wheeltapper.ledger.model import Act, Interruption, Outcome, Quarantine
from wheeltapper.ledger.schema import VERSION
from wheeltapper.ledger.store import Ledger
from wheeltapper.ledger.story import story
from wheeltapper.ledger.totals import totals
from wheeltapper.policy.model import Decision, JobAction, NodeAction, Payer


def interruption(key="12@900", payer=Payer.USER, *, label="network/link_down", at=1200.0, node="n2"):
    job = JobAction(payer is not Payer.NOBODY, "because", payer=payer)
    return Interruption(
        attempt(key=key),
        diagnosis(label, xid79(), nodes=(node,)),
        Decision(job, (NodeAction("n2", "r"),)),
        Mode.FULL,
        at,
    )


@pytest.fixture
def ledger(tmp_path):
    store = Ledger(tmp_path / "deep" / "ledger.db")
    yield store
    store.close()


def test_an_interruption_comes_back_as_it_was(ledger):
    ledger.record(interruption(), [Act("annotate", "12", "text")])

    assert list(ledger.interruptions(job="12")) == [interruption()]
    assert ledger.of_attempt("12@900") == [interruption()]
    assert ledger.known("12@900")


def test_an_attempt_is_recorded_once_and_its_acts_with_it(ledger):
    assert ledger.record(interruption(), [Act("requeue", "12")])
    assert not ledger.record(interruption(at=9999.0), [Act("requeue", "12")])

    assert len(list(ledger.interruptions())) == len(ledger.acts()) == 1


def test_acts_are_settled_one_by_one_and_found_by_outcome_after_a_restart(ledger, tmp_path):
    ledger.record(interruption(), [Act("annotate", "12", "t"), Act("requeue", "12")])
    ledger.settle(ledger.acts()[0], Outcome.DONE, "done so")

    again = Ledger(tmp_path / "deep" / "ledger.db")

    assert [act.kind for act in again.acts(outcome=Outcome.PLANNED)] == ["requeue"]
    assert [(act.note, act.attempt) for act in again.acts(outcome=Outcome.DONE)] == [("done so", "12@900")]
    again.close()


def test_history_counts_who_paid_and_leaves_out_what_was_not_done(ledger):
    for number, payer in enumerate([Payer.USER, Payer.USER, Payer.INFRASTRUCTURE, Payer.BLIND, Payer.NOBODY]):
        ledger.record(interruption(f"12@{number}", payer), [Act("requeue", "12")])
    ledger.record(interruption("12@observed"), [Act("requeue", "12", outcome=Outcome.OBSERVED)])
    ledger.record(interruption("12@refused"), [Act("requeue", "12", outcome=Outcome.FAILED)])

    history = ledger.history("12")

    assert (history.user, history.infrastructure, history.blind) == (2, 1, 1)
    assert ledger.history("13").user == 0


def test_what_infrastructure_paid_counts_from_a_moment_on(ledger):
    """A job of months meets many faults of machines; only those that come quickly are a loop."""
    for number, payer in enumerate([Payer.USER, Payer.INFRASTRUCTURE, Payer.INFRASTRUCTURE]):
        ledger.record(interruption(f"12@{number}", payer, at=1000.0 + number), [Act("requeue", "12")])

    history = ledger.history("12", faults_since=1002.0)

    assert (history.user, history.infrastructure) == (1, 1)


def test_nodes_that_failed_are_told_the_last_first(ledger):
    """n3 was out and came back after n1 was suspected; n4 was only observed, n6 was suspected of no hardware fault."""
    ledger.record(interruption("12@1", label="hardware/node_down", node="n1", at=2000.0), [])
    ledger.record(interruption("13@1", label="network/link_down", node="n6", at=2700.0), [])
    for node, at, outcome in (
        ("n3", 1500.0, Outcome.DONE),
        ("n3", 2500.0, Outcome.RELEASED),
        ("n4", 2600.0, Outcome.OBSERVED),
        ("n5", 900.0, Outcome.DONE),
    ):
        ledger.record_quarantine(out(node=node, at=at, outcome=outcome))

    assert ledger.failed_nodes(9) == ["n3", "n1", "n5"]
    assert ledger.failed_nodes(2) == ["n3", "n1"]


def test_a_node_that_was_suspected_by_mistake_has_not_failed(ledger):
    first = interruption("12@1", label="hardware/node_down", node="n1", at=2000.0)
    ledger.record(first, [])
    ledger.amend(replace(first, diagnosis=diagnosis("software/user_code")), [])

    assert ledger.failed_nodes(9) == []


def test_a_node_of_another_cluster_has_not_failed_here(ledger, tmp_path):
    other = Ledger(tmp_path / "deep" / "ledger.db", cluster="other")
    other.record_quarantine(out(node="n1", at=1.0, outcome=Outcome.DONE))
    other.record(interruption("12@1", label="hardware/node_down", node="n2"), [])
    other.close()

    assert ledger.failed_nodes(9) == []


def test_a_reader_sees_what_is_there_and_cannot_write(ledger, tmp_path):
    ledger.record(interruption(), [])

    reader = Ledger(tmp_path / "deep" / "ledger.db", read_only=True)

    assert len(list(reader.interruptions())) == 1
    with pytest.raises(LedgerError, match="readonly"):
        reader.record(interruption("x"), [])
    reader.close()


def test_a_missing_file_is_a_clear_error_for_a_reader(tmp_path):
    with pytest.raises(WheeltapperError, match=r"the ledger .*none\.db cannot be opened"):
        Ledger(tmp_path / "none.db", read_only=True)


def test_a_file_of_a_newer_version_is_left_alone(tmp_path):
    path = tmp_path / "ledger.db"
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    db.close()

    with pytest.raises(WheeltapperError, match="newer version"):
        Ledger(path)


def test_quarantines_come_back_by_node_and_time(ledger):
    one = Quarantine("n1", "boot:1", "hardware/gpu_xid", "xid=79", "r", "12", 10.0, Outcome.DONE)
    two = Quarantine("n2", "boot:1", "hardware/gpu_xid", "xid=79", "r", None, 20.0, Outcome.FAILED, "budget")
    ledger.record_quarantine(two)
    ledger.record_quarantine(one)

    assert ledger.quarantines() == [one, two]
    assert ledger.quarantines(node="n2") == ledger.quarantines(since=15.0) == [two]


def test_totals_order_equal_counts_by_label(ledger):
    for one in (interruption("a"), interruption("b", label="software/oom", payer=Payer.NOBODY), interruption("c")):
        ledger.record(one, [])

    sums = totals(ledger, 0.0, 2000.0)

    assert [(kind.label, kind.count, kind.requeued) for kind in sums.kinds] == [
        ("network/link_down", 2, 2),
        ("software/oom", 1, 0),
    ]
    assert sums.kinds[0].nodes == ("n2",)


def test_a_story_names_the_proof_and_what_was_done():
    text = story(1, interruption(), [Act("requeue", "12", "900", Outcome.DONE, "requeued")])

    assert text.splitlines()[0] == "attempt 1 of job 12 on n1,n2: network/link_down xid=79"
    assert "n2 kernel log GPU 0000:3b:00" in text
    assert "requeue     done: requeued" in text


def test_a_spoiled_file_is_a_clear_error_and_is_closed_again(tmp_path):
    path = tmp_path / "ledger.db"
    path.write_bytes(b"this is no database " * 100)

    for read_only in (True, False):
        with pytest.raises(WheeltapperError, match=r"cannot be opened: file is not a database"):
            Ledger(path, read_only=read_only)
    assert path.read_bytes().startswith(b"this is no database")


def test_of_a_job_on_a_thousand_nodes_a_few_are_named():
    many = attempt(nodes=tuple(f"n{number}" for number in range(1, 1001)))
    text = story(
        1, Interruption(many, diagnosis("unknown/unknown"), Decision(JobAction(False, "r")), Mode.FULL, 0.0), []
    )

    assert text.splitlines()[0].endswith("on n1,n2,n3,n4,n5,n6,n7,n8 and 992 more: unknown/unknown")
