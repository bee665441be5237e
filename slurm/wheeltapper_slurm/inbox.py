"""What the service answers when a node speaks to it."""

from __future__ import annotations

import logging

from wheeltapper.config import Mode
from wheeltapper.errors import SchedulerError
from wheeltapper.wire import Answer, Health, Leave, LogReport, Message, Report
from wheeltapper_slurm import gather, logs
from wheeltapper_slurm.journal import OpenAttempt
from wheeltapper_slurm.parts import Parts
from wheeltapper_slurm.receiving import Receiving

log = logging.getLogger(__name__)

EVENT_WAIT_S = 0.5
"""How long a report waits for its job's end to be known: EpilogSlurmctld and the epilogs start within milliseconds."""


class Inbox:
    """Writes down what nodes report, tells the batch host which logs to read, and passes on requests to leave."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._receiving = Receiving(parts.journal)

    async def hear(self, message: Message) -> Answer:
        """Return the answer to *message*, once it is in the journal."""
        if isinstance(message, Leave):
            return await self._leave(message)
        if isinstance(message, Health):
            self._parts.healths.hear(message, self._parts.clock())
            return Answer()
        await self._receiving.write(message, self._parts.clock())
        if isinstance(message, Report):
            return await self._reported(message)
        return Answer()

    async def _reported(self, report: Report) -> Answer:
        found = self._open(report)
        if not found:
            await self._parts.arrivals.until(lambda: bool(self._open(report)), EVENT_WAIT_S)
            found = self._open(report)
        for attempt in found:
            host = attempt.batch_host
            if host == report.node:
                ended = attempt.ended
                read = logs.paths(ended, host)
                return Answer(
                    read=read, near=logs.near(ended, read), names=logs.names(ended), uid=ended.uid, gid=ended.gid
                )
        # Whose logs are to be read is known only with the job's end, and a busy slurmctld may be long in telling it.
        # An end that it never tells (an unfinished installation) must not be asked for for ever.
        age = self._parts.clock() - (report.stay.epilog_at or 0.0)
        unknown = not found and not self._parts.journal.is_component(report.stay.job)
        return Answer(later=unknown and age < self._parts.config.controller.gather_deadline_s)

    async def _leave(self, leave: Leave) -> Answer:
        try:
            answer = await self._parts.gate.ask(leave)
        except SchedulerError as error:
            log.error("%s asked for leave and slurmctld failed: %s", leave.node, error)
            return Answer(ok=False, reason=str(error))
        if leave.context != "prolog" or leave.job is None or answer.released:
            return answer
        if answer.out:
            self._parts.journal.keep_off(leave, self._parts.clock())
        elif self._parts.config.policy.mode is Mode.FULL:
            await self._exclude_instead(leave)
        return answer

    async def _exclude_instead(self, leave: Leave) -> None:
        """The budget keeps a broken node in service: move the job away instead of letting it start there."""
        try:
            job = await self._parts.client.job(leave.job or "")
            if job is None or not job.batch or not job.requeueable:
                return
            if leave.node not in job.hosts:
                log.warning("%s speaks of job %s, which is not there", leave.node, leave.job)
                return
            self._parts.journal.keep_off(leave, self._parts.clock())
            await self._parts.client.requeue(job.target)
        except SchedulerError as error:
            log.error("job %s could not be moved away from %s: %s", leave.job, leave.node, error)

    def _open(self, report: Report | LogReport) -> list[OpenAttempt]:
        """Return the attempt that *report* belongs to, if it is known yet; one that was decided without it, too."""
        journal, job = self._parts.journal, report.stay.job
        return [
            attempt
            for attempt in [*journal.attempts(job), *(late for late, _ in journal.late(job))]
            if gather.belongs(report.stay, attempt.start, attempt.ended.at)
        ]
