"""Jobs that slurmctld takes for running although all their nodes have told that they are over.

A slurmctld that is killed goes on from what it saved last, and may have forgotten the end of a job. It misses the job
at the node's next registration, in half an hour as a rule. Where it is back before the node's epilog is over, it takes
the node off that job's account, and misses it nowhere: the job "runs" until its time limit (seen on 22.05 and 24.11).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from wheeltapper.config import Mode
from wheeltapper.errors import SchedulerDown, SchedulerError
from wheeltapper.wire import JobStay
from wheeltapper_slurm import wishes
from wheeltapper_slurm.gather import CLOCK_SKEW_S
from wheeltapper_slurm.lasting import AWAY_S, SAVED_S, Lasting
from wheeltapper_slurm.parts import Parts
from wheeltapper_slurm.records import JobRecord

log = logging.getLogger(__name__)

WAIT_S = 120.0
"""How long slurmctld, once it is there, is given to hear of an end: slurmstepd tells it again every 15 s (RETRY_DELAY
in its mgr.c), and each try may take as long as MessageTimeout."""

PAUSE_S = 15.0
"""Between two looks. slurmctld is asked for a job once for each new word of its nodes."""

MOST = 20
"""Decided jobs that slurmctld is asked for in one look: after its start, all that ended around it."""


class Ghosts:
    """Requeues such jobs, as slurmctld itself does with a job that it misses; one that needs no requeue it cancels."""

    def __init__(self, parts: Parts, lasting: Lasting) -> None:
        self._parts = parts
        self._lasting = lasting
        self._due = 0.0
        self._asked: dict[str, int] = {}
        self._started: float | None = None
        self._settled_to = 0.0
        self._woken: dict[str, float] = {}

    async def look(self) -> bool:
        """Look at the jobs whose nodes have reported.

        Raises:
            SchedulerDown: slurmctld did not answer; a later look finds all that is left.
        """
        now = self._parts.clock()
        if now < self._due or self._parts.config.policy.mode is not Mode.FULL:
            return True
        self._due = now + PAUSE_S
        unclaimed = self._parts.journal.unclaimed(now - WAIT_S)
        self._asked = {job: count for job, count in self._asked.items() if unclaimed.get(job) == count}
        new = {job: count for job, count in unclaimed.items() if job not in self._asked}
        if not new and not self._woken and not self._parts.journal.settled(self._settled_to, now - WAIT_S):
            return True
        started = await self._lasting.started()
        if started is None or now - started < WAIT_S:
            return True
        for job, count in new.items():
            await self._look_at(job)
            self._asked[job] = count
        await self._look_at_woken(started)
        await self._look_at_settled(started)
        return True

    async def _look_at_woken(self, started: float) -> None:
        """What was done a moment ago slurmctld may have forgotten too."""
        for job, at in list(self._woken.items()):
            if started >= int(at):
                await self._look_at(job)
            elif self._parts.clock() - at > SAVED_S:
                del self._woken[job]

    async def _look_at_settled(self, started: float) -> None:
        """Look at jobs on which all was decided, and which ended around the last start of slurmctld."""
        if started != self._started:
            self._started, self._settled_to = started, started - AWAY_S
        asked = 0
        for job, epilog, at in self._parts.journal.settled(self._settled_to, self._parts.clock() - WAIT_S):
            if asked >= MOST and at > self._settled_to:
                break
            if started - AWAY_S <= epilog <= started + WAIT_S:
                await self._look_at(job)
                asked += 1
            self._settled_to = at

    async def _look_at(self, job: str) -> None:
        try:
            record = await self._parts.client.job(job)
            settled = self._parts.journal.stays(job)
            reported = {each.node: each.stay for each in self._parts.journal.reports(job)}
            self._woken.pop(job, None)
            if record is not None and is_over(record, {**settled, **reported}):
                await self._wake(record, decided=is_over(record, settled))
                self._woken[job] = self._parts.clock()
        except SchedulerDown:
            raise
        except SchedulerError as error:
            log.error("job %s: %s", job, error)

    async def _wake(self, record: JobRecord, *, decided: bool) -> None:
        client, job = self._parts.client, record.target
        says = f"job {job}: its nodes say that it is over, slurmctld that it runs"
        if decided and not self._was_requeued(record):
            log.warning("%s: it is cancelled, since its end is on record", says)
            await client.cancel(job)
        elif record.batch and record.requeueable and self._is_wanted(record):
            log.warning("%s: it is requeued", says)
            asked = self._parts.clock()
            await client.requeue(job)
            if decided:
                self._parts.journal.requeue(job, asked, self._parts.clock())
        else:
            log.warning("%s; it may not be requeued: scancel %s ends it", says, job)

    def _is_wanted(self, record: JobRecord) -> bool:
        wants = wishes.wants_requeue(record.comment)
        return self._parts.config.policy.requeue_by_default if wants is None else wants

    def _was_requeued(self, record: JobRecord) -> bool:
        told = self._parts.ledger.interruptions(job=record.target)
        return any(
            each.decision.job.requeue and int(each.attempt.start or 0) == int(record.start or 0) for each in told
        )


def is_over(record: JobRecord, stays: Mapping[str, JobStay]) -> bool:
    """True when slurmctld takes the job of *record* for running, and each of its nodes tells of an epilog since.

    *stays* has the nodes as keys. A part of a heterogeneous job is never over: other parts may run.
    """
    if not record.active or record.start is None or record.het_leader or not record.hosts:
        return False
    start = record.start
    return record.hosts <= {node for node, stay in stays.items() if _is_of(stay, start)}


def _is_of(stay: JobStay, start: float) -> bool:
    """True for a stay that is over of the attempt that began at *start*, and not of one before.

    By its prolog; where that is not known, or a clock may be wrong, by an epilog so late that no clock can be so wrong.
    """
    if stay.epilog_at is None:
        return False
    if stay.prolog_at is not None and stay.prolog_at >= start:
        return True
    may_be = stay.prolog_at is None or stay.prolog_at >= start - CLOCK_SKEW_S
    return may_be and stay.epilog_at > start + CLOCK_SKEW_S
