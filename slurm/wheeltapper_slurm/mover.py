"""Moves running jobs off nodes that prove to be broken under them, before the job's own timeout has run out.

It only ends the job, so that it fails as if it had died by itself: epilogs, diagnosis, decision and requeue follow as
after any other end, once. What is remembered of it keeps a second end away, and nothing else hangs on it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from wheeltapper.attempt import Attempt, Ending
from wheeltapper.config import Mode
from wheeltapper.errors import SchedulerDown, SchedulerError
from wheeltapper.ledger.model import Act, Outcome
from wheeltapper.policy import decide, moving, release
from wheeltapper.policy.model import Payer
from wheeltapper.policy.moving import Struck
from wheeltapper.policy.reason import is_ours
from wheeltapper_slurm import judge, wishes
from wheeltapper_slurm.gather import CLOCK_SKEW_S
from wheeltapper_slurm.lasting import Kind, Lasting
from wheeltapper_slurm.parts import Parts
from wheeltapper_slurm.quarantine import SLURMS_OWN
from wheeltapper_slurm.records import JobRecord, NodeRecord

log = logging.getLogger(__name__)

PAUSE_S = 1.0
"""Between two looks at what the nodes have said; slurmctld is not asked for it."""

AGAIN_S = 60.0
"""Until slurmctld is asked again about a job that is left where it is: a person may have changed their mind."""

ENDED = "end"
"""The act's kind in the record."""


@dataclass(slots=True)
class _Watched:
    """A job on a broken node: when we first heard of it, when it is to be looked at, and what was last said of it."""

    since: float
    due: float
    said: str = ""


class Mover:
    """Looks at what the nodes say of themselves. The grace counts from when we hear of it, on our own clock."""

    def __init__(self, parts: Parts, lasting: Lasting) -> None:
        self._parts = parts
        self._policy = parts.config.policy
        self._lasting = lasting
        self._due = 0.0
        self._watched: dict[tuple[str, str], _Watched] = {}

    async def look(self) -> bool:
        """Do what is due.

        Raises:
            SchedulerDown: slurmctld did not answer; a later look finds all that is left.
        """
        now = self._parts.clock()
        if now < self._due or not self._policy.move_after_s:
            return True
        self._due = now + PAUSE_S
        struck = {each.name: each for health in self._parts.healths.broken(now) for each in moving.struck(health)}
        due = now + self._policy.move_after_s
        self._watched = {name: self._watched.get(name) or _Watched(now, due) for name in struck}
        for name, each in struck.items():
            watched = self._watched[name]
            if now >= watched.due:
                await self._try(each, watched, now)
                watched.due = now + AGAIN_S
        return True

    def acts(self, attempt: Attempt) -> list[Act]:
        """Return what was done to end *attempt*, for its record."""
        move = self._parts.journal.move(_key(attempt.job, attempt.start))
        return [] if move is None else [Act(ENDED, attempt.job, outcome=Outcome.DONE, note=move.why)]

    async def _try(self, struck: Struck, watched: _Watched, now: float) -> None:
        try:
            await self._look_at(struck, watched, now)
        except SchedulerDown:
            raise
        except SchedulerError as error:
            log.error("job %s on %s: %s", struck.stay.job, struck.node, error)

    async def _look_at(self, struck: Struck, watched: _Watched, now: float) -> None:
        record = await self._record(struck)
        if record is None:
            return
        key = _key(record.target, record.start)
        move = self._parts.journal.move(key)
        if move is not None and move.done:
            return
        stays = await self._objection(struck, record, now)
        job = f"job {record.target} still runs on {struck.node} with {struck.finding.label} {struck.finding.detail}"
        if stays is None and self._policy.mode is not Mode.FULL:
            stays = f"mode {self._policy.mode.value}; in mode full it would be ended and run elsewhere"
        if stays is not None:
            self._say(watched, f"{job} and stays there: {stays}")
            return
        why = f"it still ran on {struck.node} {now - watched.since:.0f} s after {struck.finding.label} was heard of"
        await self._end(record.target, key, why, now)

    async def _end(self, target: str, key: str, why: str, now: float) -> None:
        journal = self._parts.journal
        journal.note_move(key, why, now)
        self._lasting.note(Kind.MOVE, key)
        try:
            await self._parts.client.end(target)
        except SchedulerDown:
            raise  # it may have been heard all the same, so it stays noted
        except SchedulerError:
            journal.forget_move(key)
            raise
        journal.note_moved(key, done=True)
        log.info("job %s is ended, so that it runs elsewhere: %s", target, why)

    async def _record(self, struck: Struck) -> JobRecord | None:
        """Return the job that is to be acted on, as long as it is the attempt that *struck* tells of and runs."""
        record = await self._parts.client.job(struck.stay.job)
        if record is None or struck.node not in record.hosts:
            return None
        if record.het_leader and record.het_leader != record.id:
            record = await self._parts.client.job(record.het_leader)
        began = struck.stay.prolog_at
        if record is None or record.state != "RUNNING" or record.start is None or began is None:
            return None
        # An agent that tells of an earlier attempt was not heard since.
        return record if began >= record.start - CLOCK_SKEW_S else None

    async def _objection(self, struck: Struck, record: JobRecord, now: float) -> str | None:
        """Return why the job stays where it is, whatever the mode; None when nothing speaks for that."""
        attempt = Attempt(
            key="",
            job=record.target,
            ending=Ending.FAILED,
            batch=record.batch,
            requeueable=record.requeueable,
            wants_requeue=wishes.wants_requeue(record.comment),
        )
        node = await self._parts.client.node(struck.node)
        since = judge.faults_since(self._parts.config, now)
        history = self._parts.ledger.history(record.target, faults_since=since)
        return (
            decide.refusal(Payer.INFRASTRUCTURE, attempt, history, self._policy)
            or self._of_age(struck, now)
            or self._of_people(struck, node)
            or await self._of_gpus(struck, node)
        )

    def _of_age(self, struck: Struck, now: float) -> str | None:
        """A diagnosis looks back only so far: an older fault would not explain the end that we made."""
        age, config = now - (struck.finding.evidence.at or 0.0), self._parts.config
        if age <= config.diagnosis.window_s - config.controller.gather_deadline_s:
            return None
        return f"it has lived with that for {age / 60:.0f} minutes"

    def _of_people(self, struck: Struck, node: NodeRecord | None) -> str | None:
        if node is None or node.silent:
            return "slurmctld itself has given its node up"
        if node.drained and not is_ours(node.reason) and node.reason not in SLURMS_OWN:
            return f"a person has taken its node out ({node.reason})"
        settled = release.settled(self._parts.ledger.quarantines(node=struck.node))
        if not node.drained and struck.finding.key in settled:
            return "a person has put its node back in spite of it"
        return None

    async def _of_gpus(self, struck: Struck, node: NodeRecord | None) -> str | None:
        if struck.certain or (node is not None and 0 < node.gpus <= struck.stay.gpu_count):
            return None
        given_out = (await self._parts.client.configuration()).get("GresTypes", "")
        if "gpu" not in given_out.split(","):
            return None
        return "it may have another GPU, or none (node.gpus would tell)"

    def _say(self, watched: _Watched, sentence: str) -> None:
        if watched.said != sentence:
            log.info("%s", sentence)
        watched.said = sentence


def _key(job: str, start: float | None) -> str:
    """Return what one attempt is called here: a running one has no other name on any release."""
    return f"{job}@{int(start or 0)}"
