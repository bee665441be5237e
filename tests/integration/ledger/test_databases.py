"""The ledger does the same in SQLite and in PostgreSQL."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.integration.ledger.made import interruption
from tests.unit.make import attempt
from wheeltapper import codec
from wheeltapper.errors import LedgerError
from wheeltapper.ledger import writing
from wheeltapper.ledger.database import PostgreSQL, SQLite
from wheeltapper.ledger.merge import merge
from wheeltapper.ledger.model import Act, NodeState, Outcome, Quarantine
from wheeltapper.ledger.schema import OLDEST, VERSION
from wheeltapper.ledger.store import PAGE, Ledger
from wheeltapper.ledger.sums import DAY_S, MONTH_S
from wheeltapper.ledger.totals import totals


def quarantine(node="n1", at=10.0, outcome=Outcome.DONE):
    return Quarantine(node, "boot:1", "hardware/gpu_xid", "xid=79", "r", "12", at, outcome)


def test_what_was_recorded_comes_back(ledger):
    assert ledger.record(interruption(), [Act("annotate", "12", "100 % sure"), Act("requeue", "12")])
    assert not ledger.record(interruption(at=9999.0), [Act("requeue", "12")])

    assert list(ledger.interruptions()) == list(ledger.interruptions(job="12")) == [interruption()]
    assert ledger.of_attempt("12@900") == [interruption()]
    assert ledger.known("12@900")
    assert not ledger.known("12@901")
    assert [act.value for act in ledger.acts(attempt="12@900")] == ["100 % sure", ""]


def test_which_attempts_have_ended_is_told_whether_they_were_interrupted_or_not(ledger):
    ledger.record(interruption(at=1200.0), [])
    ledger.record_run(attempt(key="14_2@950", job="14_2", start=950.0, end=1100.0))

    assert (ledger.ran("14_2@950"), ledger.ran("12@900")) == (True, False)
    assert (ledger.runs("14_2"), ledger.runs("12")) == ([950.0], [])
    assert ledger.ended(1100.0, 1200.0) == ["12", "14_2"]
    assert ledger.ended(1100.5, 2000.0) == ["12"]
    assert ledger.ended(1200.5, 2000.0) == ledger.ended(0.0, 1099.0) == []


def test_an_act_is_settled_and_a_history_counts_it(ledger):
    ledger.record(interruption(), [Act("requeue", "12")])

    settled = ledger.settle(ledger.acts()[0], Outcome.DONE, "it's done: so")

    assert ledger.acts(outcome=Outcome.DONE) == [settled]
    assert ledger.acts(outcome=Outcome.PLANNED) == []
    assert ledger.history("12").infrastructure == 1


def test_quarantines_and_node_states_come_back_in_order_and_once(ledger):
    for each in (quarantine("n2", 20.0), quarantine(), quarantine()):
        ledger.record_quarantine(each)
    for at in (5.0, 3.0, 5.0):
        ledger.record_node_state(NodeState("n1", "back", at, "r"))

    assert ledger.quarantines() == [quarantine(), quarantine("n2", 20.0)]
    assert ledger.quarantines(node="n2") == ledger.quarantines(since=15.0) == [quarantine("n2", 20.0)]
    states = [(each.state, each.at) for each in ledger.node_states(node="n1")]
    assert states == [("back", 3.0), ("back", 5.0), ("out", 10.0)], "what was done to a node is its state from then on"


def test_nodes_that_failed_are_told_the_last_first_whether_out_or_suspected(ledger):
    for number, at in enumerate((15.0, 40.0 + MONTH_S)):
        ledger.record(interruption(f"{number}@1", at=at), [])
    ledger.record_quarantine(quarantine("n8", 20.0))
    ledger.record_quarantine(quarantine("n9", 50.0 + MONTH_S))

    suspects = {each.node for each in interruption().diagnosis.suspects}
    assert suspects == {"n2"}
    assert ledger.failed_nodes(9) == ["n9", "n2", "n8"]
    assert ledger.failed_nodes(1) == ["n9"]


def test_more_than_a_page_is_read_in_the_order_of_time(ledger):
    found = [interruption(f"{number}@1", at=float(number // 3)) for number in range(PAGE + 7)]
    with ledger.database.transaction():
        writing.write(ledger.database, ledger.cluster, found, writing.OURS, 3600)

    read = list(ledger.interruptions(since=1.0))

    assert len(read) == len(found) - 3
    assert [each.decided_at for each in read] == sorted(each.decided_at for each in read)


def test_sums_over_days_and_edges_are_those_of_counting_one_by_one(ledger):
    month = 3 * MONTH_S
    moments = [month + day * DAY_S + hour * 3600 for day in range(70) for hour in (1, 13)]
    kinds = ("hardware/gpu_xid", "software/oom", "network/link_down")
    made = [
        interruption(f"{number}@1", at=at, label=kinds[number % 3], node=f"n{number % 4}")
        for number, at in enumerate(moments)
    ]
    with ledger.database.transaction():
        writing.write(ledger.database, ledger.cluster, made, writing.OURS, 3600)
    ledger.record_run(replace(attempt(key="7@1", start=month, end=month + 5 * DAY_S, gpus=16), partition="gpu"))

    for since, until in (
        (0.0, 1e12),
        (month + 3.5 * DAY_S, month + 68.2 * DAY_S),
        (month + 2 * DAY_S, month + 2.3 * DAY_S),
        (month + 2.9 * DAY_S, month + 3.1 * DAY_S),
    ):
        sums = totals(ledger, since, until)
        inside = [each for each in made if since <= each.decided_at < until]
        assert {kind.label: kind.count for kind in sums.kinds} == {
            name: sum(each.diagnosis.label == name for each in inside)
            for name in kinds
            if any(each.diagnosis.label == name for each in inside)
        }
        faults = [each for each in inside if each.diagnosis.label != "software/oom"]
        run = int(since <= month + 5 * DAY_S < until)
        (exposure,) = sums.exposures
        assert (exposure.faults, exposure.interruptions, exposure.runs) == (len(faults), len(inside), run)
        assert exposure.hours == pytest.approx(1.5 * len(inside) + 120 * run)
        assert sum(kind.lost_gpu_hours for kind in sums.kinds) == pytest.approx(8 * len(inside))
        assert sum(each.suspected for each in sums.nodes) == sum(
            each.diagnosis.label == "hardware/gpu_xid" for each in inside
        )


def test_what_is_amended_takes_the_place_of_what_was_there_in_records_and_sums(ledger):
    ledger.record(interruption(label="unknown/unknown", node="n9"), [Act("requeue", "12")])
    ledger.record(interruption("13@1", at=1300.0), [])

    ledger.amend(interruption(), [Act("exclude", "12")])

    assert ledger.of_attempt("12@900") == [interruption()]
    assert [act.kind for act in ledger.acts(attempt="12@900")] == ["requeue", "exclude"]
    assert ledger.history("12", but="12@900").infrastructure == 0
    for until in (1e12, 1250.0):  # from the sums, and from the rows
        sums = totals(ledger, 0.0, until)
        both = until > 1300
        assert [(kind.label, kind.count, kind.nodes) for kind in sums.kinds] == [
            ("hardware/gpu_xid", 1 + both, ("n2",))
        ]
        assert [(each.node, each.suspected) for each in sums.nodes] == [("n2", 1 + both)]
        assert [(each.faults, each.interruptions) for each in sums.exposures] == [(1 + both, 1 + both)]


def test_old_records_go_and_their_sums_with_them(ledger):
    old, new = interruption("1@1", at=10.0), interruption("2@2", at=2.5 * MONTH_S)
    for each in (old, new):
        ledger.record(each, [Act("requeue", each.attempt.job)])
    ledger.record_quarantine(quarantine(at=20.0))

    assert ledger.forget(2.2 * MONTH_S) == 1
    assert ledger.forget(2.2 * MONTH_S) == 0

    assert list(ledger.interruptions()) == [new]
    assert [act.target for act in ledger.acts()] == ["2"]
    assert ledger.quarantines() == []
    assert totals(ledger, 0.0, 1e12).interruptions == 1


def test_ledgers_of_two_clusters_are_merged_twice_without_harm(new_ledger):
    one, two, whole = new_ledger(cluster="one"), new_ledger(cluster="two"), new_ledger(cluster="whole")
    for ledger, at in ((one, 100.0), (two, 200.0)):
        ledger.record(interruption(at=at), [Act("requeue", "12")])
        ledger.record_quarantine(quarantine(at=at))
        ledger.record_run(attempt(key="8@1", gpus=8))
        ledger.record_node_state(NodeState("n1", "out", at))

    assert [merge(whole, one), merge(whole, two), merge(whole, one)] == [1, 1, 0]

    assert [each.decided_at for each in whole.interruptions()] == [100.0, 200.0]
    assert len(whole.quarantines()) == 2
    sums = totals(whole, 0.0, 1e12)
    assert (sums.interruptions, sums.exposures[0].runs) == (2, 2)
    assert [(each.cluster, each.suspected) for each in sums.nodes] == [("one", 1), ("two", 1)]


def test_an_act_that_another_cluster_has_planned_is_not_ours_to_do(new_ledger):
    other, ours = new_ledger(cluster="other"), new_ledger(cluster="ours")
    other.record(interruption(), [Act("requeue", "12")])
    merge(ours, other)

    assert ours.acts(outcome=Outcome.PLANNED) == []
    assert ours.history("12").infrastructure == 0
    assert not ours.known("12@900")


def test_a_transaction_that_fails_leaves_nothing(ledger):
    ledger.record(interruption(), [])

    with pytest.raises(LedgerError):
        _delete_and(ledger.database, "DELETE FROM nothing_like_it")

    assert ledger.known("12@900")
    _delete_and(ledger.database, "DELETE FROM body")
    assert not ledger.known("12@900")


def _delete_and(database, statement):
    with database.transaction():
        database.run("DELETE FROM interruption")
        database.run(statement)


def test_a_file_of_the_first_version_is_brought_up_to_date(tmp_path):
    path = tmp_path / "ledger.db"
    database = SQLite(path)
    database.script(OLDEST)
    database.set_version(1)
    for each in (interruption("1@1"), interruption("2@2", at=99.0)):
        database.run(
            "INSERT INTO interruption VALUES (:key, :job, 'x', '', :at, :body)",
            {"key": each.attempt.key, "job": each.attempt.job, "at": each.decided_at, "body": codec.dumps(each)},
        )
    database.run("INSERT INTO act VALUES (5, '2@2', 'requeue', '2', '', 'planned', '')")
    database.run("INSERT INTO quarantine VALUES (1, 'n1', 10.0, :body)", {"body": codec.dumps(quarantine())})
    database.close()

    with pytest.raises(LedgerError, match="older version"):
        Ledger(path, read_only=True)
    ledger = Ledger(path, cluster="alpha")

    assert [each.decided_at for each in ledger.interruptions()] == [99.0, 1200.0]
    assert [(act.id, act.attempt) for act in ledger.acts()] == [(5, "2@2")]
    assert ledger.quarantines() == [quarantine()]
    assert totals(ledger, 0.0, 1e12).interruptions == 2
    assert ledger.database.version() == VERSION
    ledger.close()


def test_a_server_that_cut_us_off_is_reached_again(server):
    ledger = Ledger("unused", database=PostgreSQL(server.database()))
    ledger.record(interruption(), [])
    server.restart_connections()

    with pytest.raises(LedgerError, match="the ledger ledger"):
        ledger.known("12@900")

    assert ledger.known("12@900")
    assert ledger.record(interruption("13@1"), [])
    ledger.close()


def test_a_reader_of_a_server_cannot_write(server):
    dsn = server.database()
    Ledger("unused", database=PostgreSQL(dsn)).close()
    reader = Ledger("unused", database=PostgreSQL(dsn, read_only=True), read_only=True)

    with pytest.raises(LedgerError, match="read-only"):
        reader.record(interruption(), [])
    assert list(reader.interruptions()) == []
    reader.close()


def test_a_server_that_is_not_there_is_a_clear_error_without_secrets(tmp_path):
    with pytest.raises(LedgerError, match="the ledger in PostgreSQL") as told:
        PostgreSQL(f"host={tmp_path} user=me password=geheim")
    assert "geheim" not in str(told.value)
