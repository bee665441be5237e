"""Writes records as rows, inside a transaction of the caller's; what is there already stays as it is."""

from __future__ import annotations

from collections.abc import Iterable

from wheeltapper import codec
from wheeltapper.attempt import Attempt
from wheeltapper.ledger import rows, sums
from wheeltapper.ledger.database import Database
from wheeltapper.ledger.model import Act, Interruption, Quarantine

OURS = "wheeltapper"
"""The source of what this program has seen itself."""


def write(
    database: Database, cluster: str, interruptions: Iterable[Interruption], source: str, checkpoint_s: int
) -> int:
    """Write those of *interruptions* that are not there yet; return how many. *checkpoint_s*: see the configuration."""
    fresh: list[Interruption] = []
    narrow: list[rows.Values] = []
    for each in interruptions:
        row = rows.interruption_row(cluster, each, source, checkpoint_s)
        if database.run(rows.insert("interruption", row), row):
            fresh.append(each)
            narrow.append(row)
    bodies = [{"id": rows.identity(cluster, each.attempt.key), "body": codec.dumps(each)} for each in fresh]
    suspects = [row for each in fresh for row in rows.suspect_rows(cluster, each)]
    findings = [row for each in fresh for row in rows.finding_rows(cluster, each)]
    for table, values in (("body", bodies), ("suspect", suspects), ("finding", findings)):
        if values:
            database.run_many(rows.insert(table, values[0]), values)
    sums.add(database, narrow, suspects)
    return len(fresh)


def take_back(database: Database, cluster: str, attempt: str) -> None:
    """Remove the interruption of *attempt* and all that was written with it, its acts excepted."""
    key = {"id": rows.identity(cluster, attempt)}
    narrow = ("decided_at", "cluster", "label", "requeue", "nodes", "partition_name", "run_s", "lost_s", "gpus")
    accused = ("id", "decided_at", "cluster", "node", "label")
    known = database.rows(f"SELECT {', '.join(narrow)} FROM interruption WHERE id = :id", key)
    suspects = database.rows(f"SELECT {', '.join(accused)} FROM suspect WHERE id = :id", key)
    sums.add(
        database,
        [dict(zip(narrow, each, strict=True)) for each in known],
        [dict(zip(accused, each, strict=True)) for each in suspects],
        sign=-1,
    )
    for table in ("body", "suspect", "finding", "interruption"):
        database.run(f"DELETE FROM {table} WHERE id = :id", key)


def write_quarantine(database: Database, cluster: str, quarantine: Quarantine) -> bool:
    """Write *quarantine* unless it is there, inside the caller's transaction."""
    row = {
        "id": rows.quarantine_id(cluster, quarantine),
        "cluster": cluster,
        "node": quarantine.node,
        "at": quarantine.at,
        "body": codec.dumps(quarantine),
    }
    return bool(database.run(rows.insert("quarantine", row), row))


def write_acts(database: Database, cluster: str, attempt: str, acts: Iterable[Act]) -> None:
    """Write the *acts* that follow an attempt's interruption, in their order."""
    values = [
        {
            "cluster": cluster,
            "attempt": attempt,
            "kind": act.kind,
            "target": act.target,
            "value": act.value,
            "outcome": act.outcome.value,
            "note": act.note,
        }
        for act in acts
    ]
    if values:
        database.run_many(rows.insert("act", values[0]), values)


def write_runs(database: Database, cluster: str, attempts: Iterable[Attempt]) -> int:
    """Write those of *attempts*, which nothing interrupted, that are not there yet; return how many."""
    fresh = [
        row
        for row in (rows.run_row(cluster, attempt) for attempt in attempts)
        if database.run(rows.insert("run", row), row)
    ]
    sums.add_runs(database, fresh)
    return len(fresh)
