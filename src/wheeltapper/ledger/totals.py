"""Sums over the record: which kinds interrupt most and what they cost, which nodes, and which sizes of jobs.

Whole days and months come from the running sums, the rest from the narrow rows of the days at the edges: nothing here
reads a whole record, so a million interruptions take well under a second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from math import ceil, floor

from wheeltapper.ledger.database import Database, Row
from wheeltapper.ledger.model import Outcome, Quarantine
from wheeltapper.ledger.store import Ledger
from wheeltapper.ledger.sums import DAY_S, MONTH_S

ByNode = dict[tuple[str, str, str], tuple[int, float, float]]
"""By cluster, node and label: how often the node was suspected, and when first and last (Unix seconds)."""

NODES_SHOWN = 5
"""Suspected nodes that are named for a kind, those suspected most often first."""


@dataclass(frozen=True, slots=True)
class Kind:
    """One label's share. ``requeued`` counts the interruptions after which the job was to run again.

    ``gpu_hours`` is what the interrupted attempts had run, ``lost_gpu_hours`` the part since their last checkpoint.
    """

    label: str
    count: int
    share: float
    requeued: int
    nodes: tuple[str, ...]
    gpu_hours: float = 0.0
    lost_gpu_hours: float = 0.0


@dataclass(frozen=True, slots=True)
class Exposure:
    """Jobs of one size in one partition: ``hours`` is for how long all of them ran, ``faults`` how often one was ended
    by something that was neither its own doing nor the scheduler's.
    """

    nodes: int
    partition: str
    faults: int
    interruptions: int
    runs: int
    hours: float
    gpu_hours: float


@dataclass(frozen=True, slots=True)
class NodeSum:
    """How often a node was suspected of a hardware fault, and when first and last (Unix seconds)."""

    cluster: str
    node: str
    suspected: int
    first: float
    last: float


@dataclass(frozen=True, slots=True)
class Totals:
    """The report: kinds by count, exposures by size, and quarantines in the order in which they happened."""

    since: float
    until: float
    interruptions: int
    kinds: tuple[Kind, ...]
    exposures: tuple[Exposure, ...]
    nodes: tuple[NodeSum, ...]
    quarantines: tuple[Quarantine, ...]


def totals(ledger: Ledger, since: float, until: float, most_nodes: int = 20) -> Totals:
    """Return the sums of what was decided from *since* up to *until*; equal counts are ordered by name.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    by_node = _by_node(ledger.database, since, until)
    kinds = _kinds(ledger.database, since, until, _nodes_by_kind(by_node))
    quarantines = ledger.quarantines(since=since)
    return Totals(
        since,
        until,
        sum(kind.count for kind in kinds),
        kinds,
        _exposures(ledger.database, since, until),
        _suspected(by_node)[:most_nodes],
        tuple(each for each in quarantines if each.outcome is not Outcome.PLANNED and each.at < until),
    )


def _kinds(database: Database, since: float, until: float, nodes: Mapping[str, tuple[str, ...]]) -> tuple[Kind, ...]:
    sums = _added(
        database.rows(
            "SELECT label, sum(number), sum(requeued), sum(gpu_s), sum(lost_s) FROM sum_kind"
            " WHERE day >= :first AND day < :after GROUP BY label",
            _whole(since, until, DAY_S),
        ),
        *(
            database.rows(
                "SELECT label, count(*), sum(CASE WHEN requeue <> '' THEN 1 ELSE 0 END), sum(gpus * run_s),"
                " sum(gpus * lost_s) FROM interruption WHERE decided_at >= :since AND decided_at < :until"
                " GROUP BY label",
                edge,
            )
            for edge in _edges(since, until, DAY_S)
        ),
    )
    whole = sum(count for count, *_ in sums.values())
    return tuple(
        Kind(label, count, count / whole, requeued, nodes.get(label, ()), gpu_s / 3600, lost_s / 3600)
        for (label,), (count, requeued, gpu_s, lost_s) in sorted(sums.items(), key=lambda each: (-each[1][0], each[0]))
        if count  # what was amended to another label leaves a sum of nothing
    )


def _nodes_by_kind(by_node: ByNode) -> dict[str, tuple[str, ...]]:
    counts: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for (_, node, label), (count, _first, _last) in by_node.items():
        counts[label].append((-count, node))
    return {label: tuple(node for _, node in sorted(found)[:NODES_SHOWN]) for label, found in counts.items()}


def _exposures(database: Database, since: float, until: float) -> tuple[Exposure, ...]:
    fault = "CASE WHEN label < 'scheduler' OR label >= 'unknown' THEN 1 ELSE 0 END"  # the families' order by name
    edges = list(_edges(since, until, DAY_S))
    sums = _added(
        database.rows(
            "SELECT nodes, partition_name, sum(faults), sum(number), sum(runs), sum(run_s), sum(gpu_s) FROM sum_size"
            " WHERE day >= :first AND day < :after GROUP BY nodes, partition_name",
            _whole(since, until, DAY_S),
        ),
        *(
            database.rows(
                f"SELECT nodes, partition_name, sum({fault}), count(*), 0, sum(run_s), sum(gpus * run_s)"
                " FROM interruption WHERE decided_at >= :since AND decided_at < :until GROUP BY nodes, partition_name",
                edge,
            )
            for edge in edges
        ),
        *(
            database.rows(
                "SELECT nodes, partition_name, 0, 0, count(*), sum(run_s), sum(gpus * run_s) FROM run"
                " WHERE ended_at >= :since AND ended_at < :until GROUP BY nodes, partition_name",
                edge,
            )
            for edge in edges
        ),
        keys=2,
    )
    return tuple(
        Exposure(nodes, partition, faults, count, runs, run_s / 3600, gpu_s / 3600)
        for (nodes, partition), (faults, count, runs, run_s, gpu_s) in sorted(sums.items())
        if count or runs
    )


def _suspected(by_node: ByNode) -> tuple[NodeSum, ...]:
    nodes: dict[tuple[str, str], NodeSum] = {}
    for (cluster, node, label), (count, first, last) in by_node.items():
        if not label.startswith("hardware/"):
            continue
        known = nodes.get((cluster, node))
        nodes[cluster, node] = (
            NodeSum(cluster, node, count, first, last)
            if known is None
            else NodeSum(cluster, node, known.suspected + count, min(known.first, first), max(known.last, last))
        )
    return tuple(sorted(nodes.values(), key=lambda each: (-each.suspected, each.cluster, each.node)))


def _by_node(database: Database, since: float, until: float) -> ByNode:
    found = database.rows(
        "SELECT cluster, node, label, sum(number), min(first), max(last) FROM sum_node"
        " WHERE month >= :first AND month < :after GROUP BY cluster, node, label",
        _whole(since, until, MONTH_S),
    )
    for edge in _edges(since, until, MONTH_S):
        found += database.rows(
            "SELECT cluster, node, label, count(DISTINCT id), min(decided_at), max(decided_at) FROM suspect"
            " WHERE decided_at >= :since AND decided_at < :until GROUP BY cluster, node, label",
            edge,
        )
    sums: ByNode = {}
    for cluster, node, label, count, first, last in found:
        known = sums.get((cluster, node, label), (0, first, last))
        sums[cluster, node, label] = (known[0] + int(count), min(known[1], first), max(known[2], last))
    return {key: found for key, found in sums.items() if found[0]}


def _added(*parts: list[Row], keys: int = 1) -> dict[Row, list[int]]:
    """Add up rows that agree in their first *keys* columns."""
    sums: dict[Row, list[int]] = {}
    for row in chain(*parts):
        known = sums.setdefault(row[:keys], [0] * (len(row) - keys))
        for place, value in enumerate(row[keys:]):
            known[place] += int(value)
    return sums


def _whole(since: float, until: float, block_s: int) -> dict[str, int]:
    """Return the blocks of *block_s* that lie inside: the first one, and the one after the last."""
    return {"first": ceil(since / block_s), "after": max(ceil(since / block_s), floor(until / block_s))}


def _edges(since: float, until: float, block_s: int) -> Iterator[dict[str, float]]:
    """Yield what :func:`_whole` leaves out: up to two spans in Unix seconds."""
    blocks = _whole(since, until, block_s)
    begin, end = blocks["first"] * block_s, blocks["after"] * block_s
    if begin >= until:
        yield {"since": since, "until": until}
        return
    yield {"since": since, "until": begin}
    yield {"since": end, "until": until}
