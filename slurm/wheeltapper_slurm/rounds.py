"""Round by round: ended jobs into the journal, decisions on what is complete, acts that are left."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path

from wheeltapper.attempt import Ending
from wheeltapper.errors import LedgerError, SchedulerDown, SchedulerError
from wheeltapper.ledger.model import Outcome
from wheeltapper.policy import release
from wheeltapper_slurm import gather, judge, spool
from wheeltapper_slurm.acts import Doer
from wheeltapper_slurm.endings import Endings
from wheeltapper_slurm.gather import Before, Gathered
from wheeltapper_slurm.ghosts import Ghosts
from wheeltapper_slurm.journal import OpenAttempt
from wheeltapper_slurm.keeper import Keeper
from wheeltapper_slurm.lasting import Kind, Lasting
from wheeltapper_slurm.mover import Mover
from wheeltapper_slurm.parts import Parts
from wheeltapper_slurm.recall import Recall
from wheeltapper_slurm.spool import Ended

log = logging.getLogger(__name__)

ROUND_S = 0.1
"""Pause between two looks at the spool and the open attempts: what a person does not notice."""

UNFINISHED_S = 3600.0
"""EpilogSlurmctld writes its file in milliseconds."""

SETTLE_S = 60.0
"""How long past its deadline an attempt with exit code 0:0 may stay in COMPLETING before slurmdbd is asked how it
ended. Where there is none, it is judged as unknown."""

FIRST_PAUSE_S = 0.2
LAST_PAUSE_S = 5.0
"""Between two tries of the same thing: soon at first, an epilog ends in a moment; later one RPC in five seconds."""


class Rounds:
    """Decides each attempt once. The journal and the ledger hold all that a restart must find again."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._lasting = lasting = Lasting(parts.client, parts.journal, parts.clock)
        self._recall = Recall(parts, lasting)
        self._endings = Endings(parts, lasting)
        self._doer = Doer(
            parts.client,
            parts.ledger,
            parts.config.policy.mode,
            parts.clock,
            memory=parts.journal,
            note=lambda attempt: lasting.note(Kind.ACTS, attempt),
        )
        self._keeper = Keeper(parts)
        self._mover = Mover(parts, lasting)
        self._ghosts = Ghosts(parts, lasting)
        self._ended_dir = parts.config.controller.spool_dir / "ended"
        self._ended_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        spool.sweep(self._ended_dir, parts.clock() - UNFINISHED_S)
        # Our own absence is not the nodes' silence: after a start they have as long as ever.
        self._first_deadline = parts.clock() + parts.config.controller.gather_deadline_s
        self._late_since: dict[str, float] = {}
        self._later: dict[str, tuple[float, float]] = {}

    async def run(self) -> None:
        """Make rounds until cancelled."""
        while True:
            try:
                await self.once()
            except SchedulerDown as error:
                log.warning("slurmctld does not answer, work waits: %s", error)
                await asyncio.sleep(1.0)
            await asyncio.sleep(ROUND_S)

    async def once(self) -> None:
        """Make one round.

        Raises:
            SchedulerDown: slurmctld did not answer; what is left is done in a later round.
        """
        for path in spool.waiting(self._ended_dir):
            await self._turn(path.name, self._take_in(path))
        for attempt in self._parts.journal.attempts():
            await self._turn(attempt.key, self._consider(attempt))
        for attempt, had in self._parts.journal.late():
            await self._turn(f"late report on {attempt.key}", self._look_again(attempt, had))
        await self._turn("what slurmctld may have forgotten", self._recall.look())
        for key in sorted({act.attempt for act in self._parts.ledger.acts(outcome=Outcome.PLANNED)}):
            await self._turn(f"acts of {key}", self._doer.do(key))
        await self._turn("nodes that are out", self._look_after())
        await self._turn("jobs on broken nodes", self._mover.look())
        await self._turn("jobs whose end slurmctld has forgotten", self._ghosts.look())

    async def _look_after(self) -> bool:
        await self._keeper.look()
        return True

    async def _turn(self, name: str, work: Coroutine[None, None, bool]) -> None:
        """Let *work* do what it can; when it says False or fails, it has its next turn after a pause that doubles."""
        now = self._parts.clock()
        due, pause = self._later.get(name, (now, FIRST_PAUSE_S))
        if now < due:
            work.close()
            return
        done = False
        try:
            done = await work
        except SchedulerDown:
            raise
        except (sqlite3.Error, LedgerError) as error:
            log.error("%s waits: the journal or the ledger cannot be written: %s", name, error)
        except Exception:
            # The boundary of this process: a bug that one job brings to light must not stop the others.
            log.exception("%s could not be handled; please report this as a bug", name)
        if done:
            self._later.pop(name, None)
        else:
            self._later[name] = (now + pause, min(2 * pause, LAST_PAUSE_S))

    async def _take_in(self, path: Path) -> bool:
        try:
            ended = spool.parse(path.read_bytes(), path.stat().st_mtime)
        except ValueError as error:
            log.error("%s is set aside: %s", path, error)
            path.rename(path.with_name(f".wrong-{path.name}"))
            return True
        await self._open_attempt(ended)
        path.unlink()
        await self._parts.arrivals.tell()
        return True

    async def _open_attempt(self, ended: Ended) -> None:
        if ended.is_component:
            # slurmctld tells the end of each part; the whole is diagnosed and decided once, under its leader.
            self._parts.journal.join(ended.id, ended.het_job, self._parts.clock())
            return
        try:
            record = await self._parts.client.job(ended.target, ended.name)
        except SchedulerDown:
            raise
        except SchedulerError as error:
            log.warning("job %s: %s", ended.target, error)
            record = None
        start = gather.start_of(ended, record)
        key = gather.key(ended, start)
        if self._parts.ledger.known(key) or self._parts.ledger.ran(key):
            log.info("job %s: attempt %s was decided before", ended.target, key)
            return
        host = record.batch_host if record is not None else None
        host = host or (ended.nodes[0] if ended.nodes else None)
        if record is not None and not record.batch:
            host = None  # an interactive job has written to a terminal, and there is no log to wait for
        # From now on, not from the end: when we were away, the nodes' reports wait in their outboxes.
        deadline = self._parts.clock() + self._parts.config.controller.gather_deadline_s
        self._parts.journal.open(OpenAttempt(key, ended, start, host, deadline))

    async def _consider(self, attempt: OpenAttempt) -> bool:
        """Decide on *attempt* when all that can be known of it is known; True unless slurmctld must be asked again."""
        now = self._parts.clock()
        job, journal = attempt.ended.id, self._parts.journal
        deadline = max(attempt.deadline, self._first_deadline)
        missing = set(attempt.ended.nodes) - journal.heard(job)
        silent = await self._endings.silent(attempt, missing, now)
        if now < deadline and missing - silent:
            return True  # without reading a thousand reports in every round
        before = Before(self._decided(attempt), journal.epilogs(job), journal.requeued(attempt.ended.target))
        gathered = self._gather(attempt, before)
        silent = await self._endings.silent(attempt, gathered.missing(), now)
        if now < deadline and (gathered.missing(silent) or gathered.logs_missing()):
            return True
        if await self._endings.told_before(gathered, before, silent):
            log.info("job %s: attempt %s needs nothing (its end was told before)", attempt.ended.target, attempt.key)
            self._close(attempt, gathered, now)
            return True
        record = await self._parts.client.job(attempt.ended.target, attempt.ended.name)
        how = await self._endings.how(gathered, record, silent, now)
        if how is None:
            if now < deadline + SETTLE_S:
                return False
            how = gather.by_the_books(await self._parts.client.past(job), attempt.ended.at) or Ending.UNKNOWN
        if how is Ending.COMPLETED:
            self._parts.ledger.record_run(gather.attempt(gathered, how, record, silent))
            log.info("job %s: attempt %s needs nothing (%s)", attempt.ended.target, attempt.key, how.value)
        else:
            case = gather.attempt(gathered, how, record, silent)
            case = replace(case, components=tuple(journal.components(job)))
            if case.scheduler_requeued:
                case = replace(case, start=gather.began(gathered, await self._parts.client.past(job)))
            done = self._mover.acts(case)
            sentence = judge.conclude(gathered, case, self._parts.ledger, self._parts.config, now, done)
            log.info("job %s: %s", attempt.ended.target, sentence)
            await self._quarantine(attempt.key)
            await self._doer.do(attempt.key)
        self._close(attempt, gathered, now)
        return True

    def _close(self, attempt: OpenAttempt, gathered: Gathered, now: float) -> None:
        """Nothing more is to be decided on *attempt*, unless reports that are missing come late."""
        self._parts.journal.note_epilogs(gathered.reports, now)
        if self._parts.ledger.known(attempt.key) and gathered.may_grow():
            self._parts.journal.await_late(attempt, gathered.size, now)
        else:
            self._parts.journal.settle(attempt, [*gathered.reports, *gathered.logs, *gathered.old], now)
        self._endings.forget(attempt)

    def _decided(self, attempt: OpenAttempt) -> float | None:
        """Return when the attempt of the same job ended that was decided on last, not counting this one."""
        told = self._parts.ledger.interruptions(job=attempt.ended.target)
        ends = [each.attempt.end for each in told if each.attempt.key != attempt.key]
        return max((end for end in ends if end is not None), default=None)

    async def _look_again(self, attempt: OpenAttempt, had: int) -> bool:
        """A report has come after the decision: look at the attempt once more, and never again.

        A report that comes with logs to be read is followed by these, so as much time is given as before the decision.
        """
        now = self._parts.clock()
        gathered = self._gather(attempt)
        if gathered.size <= had:
            self._parts.journal.still_late(attempt, now)
            return True
        waited = now - self._late_since.setdefault(attempt.key, now)
        if waited < self._parts.config.controller.gather_deadline_s and (gathered.missing() or gathered.logs_missing()):
            return True
        sentence = judge.amend(gathered, self._parts.ledger, self._parts.config, now)
        log.info("job %s: looked at again, since a report came late: %s", attempt.ended.target, sentence)
        await self._quarantine(attempt.key)
        await self._doer.do(attempt.key)
        self._parts.journal.settle(attempt, [*gathered.reports, *gathered.logs], now)
        self._late_since.pop(attempt.key, None)
        return True

    def _gather(self, attempt: OpenAttempt, before: Before | None = None) -> Gathered:
        job, journal = attempt.ended.id, self._parts.journal
        return gather.gather(attempt, journal.reports(job), journal.log_reports(job), journal.kept_off(job), before)

    async def _quarantine(self, key: str) -> None:
        """Take out what the decision convicts, unless the node's own epilog has done so already."""
        for leave in judge.leaves(self._parts.ledger, key):
            now = self._parts.clock()
            if release.mended(leave.findings, leave.boot_id, self._parts.healths.of(leave.node, now)):
                log.info("%s was rebooted since and passes its checks, so it stays in service", leave.node)
                continue
            try:
                await self._parts.gate.ask(leave)
            except SchedulerError as error:
                log.error("%s could not be drained: %s", leave.node, error)
