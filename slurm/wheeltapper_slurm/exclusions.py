"""Nodes that we keep jobs off, given back to them: the guilty once they are at work again, the others when need be."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from wheeltapper.errors import SchedulerDown, SchedulerError
from wheeltapper.ledger.model import Outcome, Quarantine
from wheeltapper_slurm import acts, hostlist
from wheeltapper_slurm.journal import Exclusion
from wheeltapper_slurm.parts import Parts
from wheeltapper_slurm.records import JobRecord, NodeRecord

log = logging.getLogger(__name__)

SUSPECTED_S = 86_400.0
"""A node that was only suspected may have its job back after a day: most relapses come within one."""


def are_back(
    exclusions: Iterable[Exclusion], history: Sequence[Quarantine], nodes: Iterable[NodeRecord], now: float
) -> dict[str, set[str]]:
    """Return for each job which of its excluded nodes are in service at *now*, and were out or under suspicion."""
    last = {each.node: each for each in history if each.outcome is not Outcome.OBSERVED}
    in_service = {node.name for node in nodes if not node.out}
    found: dict[str, set[str]] = {}
    for each in exclusions:
        if each.node in in_service and _is_over(each, last.get(each.node), now):
            found.setdefault(each.job, set()).add(each.node)
    return found


def _is_over(exclusion: Exclusion, newest: Quarantine | None, now: float) -> bool:
    if newest is None or newest.at < exclusion.at:
        return now - exclusion.at > SUSPECTED_S
    return newest.outcome in {Outcome.RELEASED, Outcome.UNDONE}


async def look(parts: Parts, history: Sequence[Quarantine], nodes: Sequence[NodeRecord], now: float) -> None:
    """Let jobs that wait use again what is back, and what they avoid when others are too few.

    What the user excluded stays excluded.

    Raises:
        SchedulerDown: slurmctld did not answer.
    """
    back = are_back(parts.journal.exclusions(), history, nodes, now)
    for job in sorted({*back, *parts.journal.avoiding()}):
        try:
            await _give_back(parts, job, back.get(job, set()), nodes)
        except SchedulerDown:
            raise
        except SchedulerError as error:
            log.warning("job %s: what it excludes stays excluded: %s", job, error)
            parts.journal.forget_exclusions(job, back.get(job, set()))
            parts.journal.avoid(job, (), now)


async def _give_back(parts: Parts, job: str, back: set[str], nodes: Sequence[NodeRecord]) -> None:
    journal = parts.journal
    record = await parts.client.job(job)
    if record is None:
        journal.forget_exclusions(job)
        journal.avoid(job, (), parts.clock())
        return
    # Only a job that waits can be changed; one that runs may wait again.
    if not record.waiting:
        return
    avoided, given = journal.avoided(job), back
    if not _has_others(record, nodes):
        avoided, given = frozenset(), back | avoided
    elif record.nodes > parts.config.policy.probation_max_nodes:
        avoided, given = avoided | back, set()
    left = set(record.excluded) - given
    if left != set(record.excluded):
        await parts.client.update_job(job, "ExcNodeList", hostlist.fold(left))
        log.info("job %s: may use %s again", job, ",".join(sorted(set(record.excluded) - left)))
    journal.forget_exclusions(job, back)
    journal.avoid(job, avoided, parts.clock())


def _has_others(record: JobRecord, nodes: Sequence[NodeRecord]) -> bool:
    """True when as many nodes as the job needs are free beside those that it excludes."""
    return len(acts.idle(nodes, record.partitions, record.excluded)) >= record.nodes
