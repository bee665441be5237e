"""Nodes that we excluded from a job, taken out of its ExcNodeList again once they are back at work."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from wheeltapper.errors import SchedulerDown, SchedulerError
from wheeltapper.ledger.model import Outcome, Quarantine
from wheeltapper.policy.release import on_probation
from wheeltapper_slurm import hostlist
from wheeltapper_slurm.journal import Exclusion
from wheeltapper_slurm.parts import Parts
from wheeltapper_slurm.records import NodeRecord

log = logging.getLogger(__name__)


def are_back(
    exclusions: Iterable[Exclusion], history: Sequence[Quarantine], nodes: Iterable[NodeRecord]
) -> dict[str, set[str]]:
    """Return for each job which of its excluded nodes were out, are back, and are in service now.

    A node that was only suspected was never out, and stays excluded.
    """
    last = {each.node: each for each in history}
    in_service = {node.name for node in nodes if not node.out}
    found: dict[str, set[str]] = {}
    for each in exclusions:
        newest = last.get(each.node)
        came_back = newest is not None and newest.outcome in {Outcome.RELEASED, Outcome.UNDONE}
        if newest is not None and came_back and newest.at >= each.at and each.node in in_service:
            found.setdefault(each.job, set()).add(each.node)
    return found


async def look(parts: Parts, history: Sequence[Quarantine], nodes: Sequence[NodeRecord], now: float) -> None:
    """Let jobs that wait use again the nodes that are back. What the user excluded stays excluded.

    Raises:
        SchedulerDown: slurmctld did not answer.
    """
    probation = on_probation(history, now, parts.config.policy)
    for job, back in are_back(parts.journal.exclusions(), history, nodes).items():
        try:
            await _allow(parts, job, back, probation)
        except SchedulerDown:
            raise
        except SchedulerError as error:
            log.warning("job %s: %s stays excluded: %s", job, ",".join(sorted(back)), error)
            parts.journal.forget_exclusions(job, back)


async def _allow(parts: Parts, job: str, back: set[str], probation: frozenset[str]) -> None:
    record = await parts.client.job(job)
    if record is None:
        parts.journal.forget_exclusions(job)
        return
    if record.nodes > parts.config.policy.probation_max_nodes:
        back = back - probation
    # Only a job that waits can be changed; one that runs may wait again.
    if not back or not record.waiting:
        return
    left = set(record.excluded) - back
    if left != set(record.excluded):
        await parts.client.update_job(job, "ExcNodeList", hostlist.fold(left))
        log.info("job %s: may use %s again, which is back", job, ",".join(sorted(back)))
    parts.journal.forget_exclusions(job, back)
