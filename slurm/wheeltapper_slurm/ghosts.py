"""Jobs that slurmctld takes for running although all their nodes have told that they are over.

A slurmctld that is killed goes on from what it saved last, and may have forgotten the end of a job. It misses the job
at the node's next registration, in half an hour as a rule. Where it is back before the node's epilog is over, it takes
the node off that job's account, and misses it nowhere: the job "runs" until its time limit (seen on 22.05).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from wheeltapper.config import Mode
from wheeltapper.wire import JobStay, Report
from wheeltapper_slurm.gather import CLOCK_SKEW_S
from wheeltapper_slurm.lasting import Lasting
from wheeltapper_slurm.parts import Parts
from wheeltapper_slurm.records import JobRecord

log = logging.getLogger(__name__)

WAIT_S = 120.0
"""How long slurmctld, once it is there, is given to hear of an end: slurmstepd tells it again every 15 s (RETRY_DELAY
in its mgr.c), and each try may take as long as MessageTimeout."""

PAUSE_S = 15.0
"""Between two looks; slurmctld is asked for a job once for each new word of its nodes."""


class Ghosts:
    """Requeues such jobs, as slurmctld itself does with a job that it misses."""

    def __init__(self, parts: Parts, lasting: Lasting) -> None:
        self._parts = parts
        self._lasting = lasting
        self._due = 0.0
        self._asked: dict[str, int] = {}

    async def look(self) -> bool:
        """Look at the jobs whose nodes have reported, and of whose end slurmctld has not told.

        Raises:
            SchedulerError: slurmctld did not answer, or refused; a later look finds all that is left.
        """
        now = self._parts.clock()
        if now < self._due or self._parts.config.policy.mode is not Mode.FULL:
            return True
        self._due = now + PAUSE_S
        unclaimed = self._parts.journal.unclaimed(now - WAIT_S)
        self._asked = {job: count for job, count in self._asked.items() if unclaimed.get(job) == count}
        new = {job: count for job, count in unclaimed.items() if job not in self._asked}
        started = await self._lasting.started() if new else None
        if started is None or now - started < WAIT_S:
            return True
        for job, count in new.items():
            record = await self._parts.client.job(job)
            if record is not None and is_over(record, self._parts.journal.reports(job)):
                await self._wake(record)
            self._asked[job] = count
        return True

    async def _wake(self, record: JobRecord) -> None:
        job, says = record.target, "its nodes say that it is over, slurmctld that it runs"
        if record.batch and record.requeueable:
            log.warning("job %s: %s: it is requeued", job, says)
            await self._parts.client.requeue(job)
        else:
            log.warning("job %s: %s; it may not be requeued: scancel %s ends it", job, says, job)


def is_over(record: JobRecord, reports: Iterable[Report]) -> bool:
    """True when slurmctld takes the job of *record* for running, and each of its nodes tells of an epilog since.

    A part of a heterogeneous job never is: other parts may run.
    """
    if not record.active or record.start is None or record.het_leader or not record.hosts:
        return False
    start = record.start
    return record.hosts <= {each.node for each in reports if _is_of(each.stay, start)}


def _is_of(stay: JobStay, start: float) -> bool:
    """True for a stay that is over of the attempt that began at *start*, and not of one before.

    By its prolog, or by an epilog so late that no clock can be so wrong.
    """
    if stay.epilog_at is None:
        return False
    return (stay.prolog_at or 0.0) >= start or stay.epilog_at > start + CLOCK_SKEW_S
