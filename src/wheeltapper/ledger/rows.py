"""One interruption as the narrow rows that sums are made of. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wheeltapper.attempt import Attempt
from wheeltapper.ledger.model import Interruption, Quarantine

Values = dict[str, Any]


def identity(cluster: str, attempt: str) -> str:
    """Return the identity of an attempt among those of all clusters."""
    return f"{cluster}/{attempt}"


def seconds(attempt: Attempt) -> int:
    """Return for how long the attempt ran; 0 where the scheduler did not say when it began or ended."""
    if attempt.start is None or attempt.end is None:
        return 0
    return max(0, round(attempt.end - attempt.start))


def interruption_row(cluster: str, of: Interruption, source: str, checkpoint_s: int) -> Values:
    """Return the row of table ``interruption``; what ran since the last of its checkpoints is lost."""
    attempt, job = of.attempt, of.decision.job
    return {
        "id": identity(cluster, attempt.key),
        "cluster": cluster,
        "attempt": attempt.key,
        "job": attempt.job,
        "job_name": attempt.name,
        "user_name": attempt.user,
        "partition_name": attempt.partition,
        "label": of.diagnosis.label,
        "requeue": job.payer.value if job.requeue else "",
        "decided_at": of.decided_at,
        "ended_at": of.decided_at if attempt.end is None else attempt.end,
        "run_s": seconds(attempt),
        "lost_s": seconds(attempt) % checkpoint_s,
        "nodes": len(attempt.nodes),
        "gpus": attempt.gpus,
        "source": source,
    }


def suspect_rows(cluster: str, of: Interruption) -> list[Values]:
    """Return one row for each node and GPU that is suspected; a rank without a node has no place in sums."""
    places = {(each.node, each.gpu or "") for each in of.diagnosis.suspects if each.node is not None}
    shared = {
        "id": identity(cluster, of.attempt.key),
        "cluster": cluster,
        "label": of.diagnosis.label,
        "decided_at": of.decided_at,
    }
    return [{**shared, "node": node, "gpu": gpu} for node, gpu in sorted(places)]


def finding_rows(cluster: str, of: Interruption) -> list[Values]:
    """Return one row for each step of the diagnosis' chain, counted from the root."""
    key = identity(cluster, of.attempt.key)
    return [
        {
            "id": key,
            "position": position,
            "signature": each.signature,
            "label": each.label,
            "detail": each.detail,
            "role": each.role.value,
            "source": each.evidence.source.value,
            "node": each.evidence.node or "",
            "gpu": each.evidence.gpu or "",
            "at": each.evidence.at,
        }
        for position, each in enumerate(of.diagnosis.chain)
    ]


def run_row(cluster: str, attempt: Attempt) -> Values:
    """Return the row of an attempt that nothing interrupted: what it ran counts in every mean time to failure."""
    end = attempt.end or 0.0
    return {
        "id": identity(cluster, attempt.key),
        "cluster": cluster,
        "job": attempt.job,
        "job_name": attempt.name,
        "user_name": attempt.user,
        "partition_name": attempt.partition,
        "started_at": end if attempt.start is None else attempt.start,
        "ended_at": end,
        "run_s": seconds(attempt),
        "nodes": len(attempt.nodes),
        "gpus": attempt.gpus,
    }


def quarantine_id(cluster: str, of: Quarantine) -> str:
    """Return the identity of a quarantine: a node, what was found, when, and what became of it."""
    return f"{cluster}/{of.node}/{of.key}/{of.at:.6f}/{of.outcome.value}"


def insert(table: str, columns: Iterable[str]) -> str:
    """Return the statement that adds a row to *table* unless its identity is there."""
    names = list(columns)
    return (
        f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join(f':{name}' for name in names)})"
        " ON CONFLICT DO NOTHING"
    )
