"""Takes over the records of another ledger: another cluster's, or the file that was used before a server."""

from __future__ import annotations

from collections.abc import Iterator

from wheeltapper.ledger import rows, sums
from wheeltapper.ledger.database import Database, Row
from wheeltapper.ledger.store import Ledger

PAGE = 500

_INTERRUPTION = (
    *("id", "cluster", "attempt", "job", "job_name", "user_name", "partition_name", "label", "requeue"),
    *("decided_at", "ended_at", "run_s", "lost_s", "nodes", "gpus", "source"),
)
_PARTS: dict[str, tuple[str, ...]] = {
    "body": ("id", "body"),
    "suspect": ("id", "cluster", "node", "gpu", "label", "decided_at"),
    "finding": ("id", "position", "signature", "label", "detail", "role", "source", "node", "gpu", "at"),
}
"""What belongs to an interruption, found by its ``id``."""

_ACT = ("cluster", "attempt", "kind", "target", "value", "outcome", "note")

_RUN = (
    *("id", "cluster", "job", "job_name", "user_name", "partition_name", "started_at", "ended_at"),
    *("run_s", "nodes", "gpus"),
)

_APART: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "quarantine": (("id",), ("id", "cluster", "node", "at", "body")),
    "node_state": (("cluster", "node", "at", "state"), ("cluster", "node", "at", "state", "reason")),
}
"""Tables that stand alone: the columns that identify a row, and all of them."""


def merge(into: Ledger, other: Ledger) -> int:
    """Copy into *into* what only *other* holds, and return how many interruptions came over.

    Each page is one transaction; a merge that was cut off is done again, and what is there already stays as it is.

    Raises:
        LedgerError: one of the two cannot be read or written.
    """
    new = 0
    for page in _pages(other.database, "interruption", ("id",), _INTERRUPTION):
        with into.database.transaction():
            fresh = [each for each in _values(_INTERRUPTION, page) if _insert(into.database, "interruption", each)]
            for each in fresh:
                _copy_parts(other.database, into.database, each)
            sums.add(into.database, fresh, _suspects(other.database, fresh))
            new += len(fresh)
    for table, (key, columns) in _APART.items():
        for page in _pages(other.database, table, key, columns):
            with into.database.transaction():
                into.database.run_many(rows.insert(table, columns), _values(columns, page))
    for page in _pages(other.database, "run", ("id",), _RUN):
        with into.database.transaction():
            sums.add_runs(into.database, [each for each in _values(_RUN, page) if _insert(into.database, "run", each)])
    return new


def _suspects(source: Database, interruptions: list[rows.Values]) -> list[rows.Values]:
    columns = _PARTS["suspect"]
    query = f"SELECT {', '.join(columns)} FROM suspect WHERE id = :id"
    return [row for each in interruptions for row in _values(columns, source.rows(query, each))]


def _copy_parts(source: Database, target: Database, interruption: rows.Values) -> None:
    for table, columns in _PARTS.items():
        found = source.rows(f"SELECT {', '.join(columns)} FROM {table} WHERE id = :id", interruption)
        if found:
            target.run_many(rows.insert(table, columns), _values(columns, found))
    acts = source.rows(
        f"SELECT {', '.join(_ACT)} FROM act WHERE cluster = :cluster AND attempt = :attempt ORDER BY id", interruption
    )
    if acts:
        target.run_many(rows.insert("act", _ACT), _values(_ACT, acts))


def _insert(database: Database, table: str, row: rows.Values) -> bool:
    return bool(database.run(rows.insert(table, row), row))


def _values(columns: tuple[str, ...], found: list[Row]) -> list[rows.Values]:
    return [dict(zip(columns, each, strict=True)) for each in found]


def _pages(source: Database, table: str, key: tuple[str, ...], columns: tuple[str, ...]) -> Iterator[list[Row]]:
    """Yield all rows of *table* in the order of *key*, some at a time, so that no query stays open for long."""
    places = [columns.index(name) for name in key]
    where = ""
    values: rows.Values = {}
    while page := source.rows(
        f"SELECT {', '.join(columns)} FROM {table} {where} ORDER BY {', '.join(key)} LIMIT {PAGE}", values
    ):
        yield page
        names = [f"last_{name}" for name in key]
        where = f"WHERE ({', '.join(key)}) > ({', '.join(f':{name}' for name in names)})"
        values = dict(zip(names, (page[-1][place] for place in places), strict=True))
