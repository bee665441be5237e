"""Jobs that slurmctld takes for running although they are over, and will never find out.

A slurmctld that is killed goes on from what it saved last, and may have forgotten the end of a job. It misses the job
at the node's next registration, in half an hour as a rule. Where it is back before the node's epilog is over, it takes
the node off that job's account, and misses it nowhere: the job "runs" until its time limit (seen on 22.05 and 24.11).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from itertools import islice

from wheeltapper.config import Mode
from wheeltapper.errors import SchedulerDown, SchedulerError
from wheeltapper.wire import JobStay, Report
from wheeltapper_slurm import wishes
from wheeltapper_slurm.gather import CLOCK_SKEW_S
from wheeltapper_slurm.lasting import AWAY_S, Lasting
from wheeltapper_slurm.parts import Parts
from wheeltapper_slurm.records import JobRecord

log = logging.getLogger(__name__)

WAIT_S = 120.0
"""How long slurmctld, once it is there, is given to hear of an end: slurmstepd tells it again every 15 s (RETRY_DELAY
in its mgr.c), and each try may take as long as MessageTimeout."""

PAUSE_S = 30.0
"""Between two looks, each of which asks slurmctld when it was started."""

MOST = 40
"""Jobs that slurmctld is asked for in one look: once it was started, all that ended in the minutes before."""


class Ghosts:
    """Asks slurmctld for such jobs once after each of its starts, and again when their nodes have said more."""

    def __init__(self, parts: Parts, lasting: Lasting) -> None:
        self._parts = parts
        self._lasting = lasting
        self._due = 0.0
        self._started: float | None = None
        self._asked: set[tuple[str, int]] = set()

    async def look(self) -> bool:
        """Look at the jobs that ended shortly before slurmctld was started, and at those of whose end only nodes tell.

        Raises:
            SchedulerDown: slurmctld did not answer; a later look finds all that is left.
        """
        now = self._parts.clock()
        if now < self._due or self._parts.config.policy.mode is not Mode.FULL:
            return True
        self._due = now + PAUSE_S
        started = await self._lasting.started()
        if started is None or now - started < WAIT_S:
            return True
        if started != self._started:
            # It may have forgotten, too, what was done about a job before.
            self._started, self._asked = started, set()
        # It tells its start in whole seconds.
        ended = [(job, 0) for job in self._parts.ledger.ended(started - AWAY_S, started + 1.0)]
        unclaimed = self._parts.journal.unclaimed(now - WAIT_S)
        self._asked &= {*ended, *unclaimed}
        await self._ask(ended, self._of_record)
        await self._ask(unclaimed, self._of_nodes)
        return True

    async def _ask(self, jobs: Iterable[tuple[str, int]], look_at: Callable[[JobRecord], Awaitable[None]]) -> None:
        """Ask slurmctld for *jobs*, each with how many reports there are, and look at those that it takes for running.

        A part of a heterogeneous job is left alone: other parts may run.
        """
        for job in list(islice((each for each in jobs if each not in self._asked), MOST)):
            try:
                record = await self._parts.client.job(job[0])
                if record is not None and record.active and not record.het_leader:
                    await look_at(record)
            except SchedulerDown:
                raise
            except SchedulerError as error:
                log.error("job %s: %s", job[0], error)
            self._asked.add(job)

    async def _of_record(self, record: JobRecord) -> None:
        """Do what was decided when the running attempt, as slurmctld takes it, is on record as one that has ended."""
        job, start, ledger = record.target, int(record.start or 0), self._parts.ledger
        told = [each for each in ledger.interruptions(job=job) if int(each.attempt.start or 0) == start]
        if not told and start not in {int(each) for each in ledger.runs(job)}:
            return
        says = f"job {job}: by our record it has ended, by slurmctld it runs"
        again = [each.attempt.key for each in told if each.decision.job.requeue and record.requeueable]
        if again:
            log.warning("%s: it is requeued, as was decided", says)
            self._parts.journal.requeue(job, again[-1], self._parts.clock())
            await self._parts.client.requeue(job)
            self._parts.journal.note_requeued(job, again[-1], self._parts.clock())
        else:
            log.warning("%s: it is cancelled", says)
            await self._parts.client.cancel(job)

    async def _of_nodes(self, record: JobRecord) -> None:
        """Requeue the job when its nodes say that it is over, as slurmctld does with a job that it misses on a node."""
        if not is_over(record, self._parts.journal.reports(record.id)):
            return
        job = record.target
        says = f"job {job}: its nodes say that it is over, slurmctld that it runs"
        wants = wishes.wants_requeue(record.comment)
        wanted = self._parts.config.policy.requeue_by_default if wants is None else wants
        if record.batch and record.requeueable and wanted:
            log.warning("%s: it is requeued", says)
            await self._parts.client.requeue(job)
        else:
            log.warning("%s; it may not be requeued: scancel %s ends it", says, job)


def is_over(record: JobRecord, reports: Iterable[Report]) -> bool:
    """True when each node of *record*, a job that slurmctld takes for running, tells of an epilog since its start."""
    if record.start is None or not record.hosts:
        return False
    start = record.start
    return record.hosts <= {each.node for each in reports if _is_of(each.stay, start)}


def _is_of(stay: JobStay, start: float) -> bool:
    """True for a stay that is over of the attempt that began at *start*, and not of one before.

    By its prolog. Where the node's clock may have been slow at that, by an epilog so late that no clock can be so fast.
    """
    if stay.prolog_at is None or stay.epilog_at is None:
        return False
    may_be = stay.prolog_at >= start - CLOCK_SKEW_S and stay.epilog_at > start + CLOCK_SKEW_S
    return stay.prolog_at >= start or may_be
