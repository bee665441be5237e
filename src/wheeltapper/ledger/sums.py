"""Running sums: what a report adds up is added up when it is written, in the same transaction.

Kinds and sizes are kept per day, nodes per month of thirty days (per day they would be as many as the interruptions).
A day begins at midnight UTC, a month at a multiple of thirty days since the Unix epoch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from wheeltapper.labels import is_fault
from wheeltapper.ledger.database import Database
from wheeltapper.ledger.rows import Values

DAY_S = 86_400
MONTH_S = 30 * DAY_S

Key = tuple[str | int, ...]


def start_of_month(at: float) -> float:
    """Return the start of the month of sums that *at* lies in, both in Unix seconds."""
    return at // MONTH_S * MONTH_S


def add(database: Database, interruptions: Iterable[Values], suspects: Iterable[Values], sign: int = 1) -> None:
    """Add rows of ``interruption`` and ``suspect`` that were written just now; with *sign* -1 take them away."""
    kinds: dict[Key, list[int]] = defaultdict(lambda: [0] * 4)
    sizes: dict[Key, list[int]] = defaultdict(lambda: [0] * 5)
    for row in interruptions:
        day = int(row["decided_at"] // DAY_S)
        gpu_s, lost_s = row["gpus"] * row["run_s"], row["gpus"] * row["lost_s"]
        requeued, fault = int(row["requeue"] != ""), int(is_fault(row["label"]))
        _more(kinds[day, row["cluster"], row["label"]], sign, 1, requeued, gpu_s, lost_s)
        size = (day, row["cluster"], row["nodes"], row["partition_name"])
        _more(sizes[size], sign, fault, 1, 0, row["run_s"], gpu_s)
    _upsert(database, "sum_kind", ("day", "cluster", "label"), ("number", "requeued", "gpu_s", "lost_s"), kinds)
    _add_sizes(database, sizes)
    _add_nodes(database, suspects, sign)


def add_runs(database: Database, runs: Iterable[Values]) -> None:
    """Add rows of ``run`` that were written just now."""
    sizes: dict[Key, list[int]] = defaultdict(lambda: [0] * 5)
    for row in runs:
        key = (int(row["ended_at"] // DAY_S), row["cluster"], row["nodes"], row["partition_name"])
        _more(sizes[key], 1, 0, 0, 1, row["run_s"], row["gpus"] * row["run_s"])
    _add_sizes(database, sizes)


def forget(database: Database, before: float) -> None:
    """Drop the sums of what was before *before*, the start of a month of sums in Unix seconds."""
    for table in ("sum_kind", "sum_size"):
        database.run(f"DELETE FROM {table} WHERE day < :day", {"day": int(before // DAY_S)})
    database.run("DELETE FROM sum_node WHERE month < :month", {"month": int(before // MONTH_S)})


def _more(sums: list[int], sign: int, *values: int) -> None:
    for place, value in enumerate(values):
        sums[place] += sign * value


def _add_sizes(database: Database, sizes: Mapping[Key, list[int]]) -> None:
    key = ("day", "cluster", "nodes", "partition_name")
    _upsert(database, "sum_size", key, ("faults", "number", "runs", "run_s", "gpu_s"), sizes)


def _add_nodes(database: Database, suspects: Iterable[Values], sign: int) -> None:
    # Two GPUs of one node in one interruption are one suspicion of the node.
    once = {(row["id"], row["node"]): row for row in suspects}
    nodes: dict[Key, list[float]] = {}
    for row in once.values():
        key = (int(row["decided_at"] // MONTH_S), row["cluster"], row["node"], row["label"])
        known = nodes.setdefault(key, [0, row["decided_at"], row["decided_at"]])
        known[:] = [known[0] + sign, min(known[1], row["decided_at"]), max(known[2], row["decided_at"])]
    if nodes:
        database.run_many(
            "INSERT INTO sum_node (month, cluster, node, label, number, first, last)"
            " VALUES (:month, :cluster, :node, :label, :number, :first, :last)"
            " ON CONFLICT (month, cluster, node, label) DO UPDATE SET number = sum_node.number + excluded.number,"
            " first = CASE WHEN excluded.first < sum_node.first THEN excluded.first ELSE sum_node.first END,"
            " last = CASE WHEN excluded.last > sum_node.last THEN excluded.last ELSE sum_node.last END",
            [
                dict(zip(("month", "cluster", "node", "label", "number", "first", "last"), (*key, *sums), strict=True))
                for key, sums in sorted(nodes.items())
            ],
        )


def _upsert(
    database: Database, table: str, key: Sequence[str], columns: Sequence[str], sums: Mapping[Key, list[int]]
) -> None:
    if not sums:
        return
    names = (*key, *columns)
    added = ", ".join(f"{each} = {table}.{each} + excluded.{each}" for each in columns)
    database.run_many(
        f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)})"
        f" ON CONFLICT ({', '.join(key)}) DO UPDATE SET {added}",
        # In one order everywhere, so that two writers never wait for each other in a circle.
        [dict(zip(names, (*at, *values), strict=True)) for at, values in sorted(sums.items())],
    )
