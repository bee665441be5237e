"""What is done to a job after a decision: planned as data first, then done one by one, each safe to do twice."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from wheeltapper.attempt import Attempt, Ending
from wheeltapper.config import Mode, PolicySection
from wheeltapper.errors import SchedulerDown, SchedulerError
from wheeltapper.ledger.model import Act, Outcome
from wheeltapper.ledger.store import Ledger
from wheeltapper.policy.model import Decision, JobAction
from wheeltapper_slurm import comment, hostlist
from wheeltapper_slurm.client import SlurmClient
from wheeltapper_slurm.records import JobRecord, NodeRecord

log = logging.getLogger(__name__)

MAX_EXCLUDED = 64
"""Nodes that we add to one job's ExcNodeList at most: a job that has met more bad nodes needs a person."""

RECORDED_S = 60.0
"""slurmctld tells slurmdbd of a job's end within a second; after a minute it is not going to."""


SOONEST_S = 1
"""Seconds until a requeued job may start. A node takes its old credential back with everything that was issued up to
that second; a new one from the same second is taken back too ("Job credential revoked"), and the job is killed."""


@dataclass(frozen=True, slots=True)
class NotYet:
    """An act whose moment has not come; ``why`` is for the log."""

    why: str


def plan(decision: Decision, attempt: Attempt, note: str, policy: PolicySection) -> list[Act]:
    """Return the acts that *decision* asks for, in order; what the mode forbids is there too, as ``observed``."""
    job = decision.job
    acts: list[Act] = []
    if job.requeue:
        # One requeue takes all components of a job with it; everything else must be said to each.
        acts.append(Act("requeue", attempt.job, str(int(attempt.start or 0))))
    for part in (attempt.job, *attempt.components):
        acts += _of_part(part, job, attempt)
    if not may_change_jobs(attempt, policy.mode):
        acts = [replace(act, outcome=Outcome.OBSERVED, note="mode") for act in acts]
    if policy.annotate:
        # A requeued job can be labelled, a finished one only in slurmdbd: so the requeue comes first.
        acts.insert(1 if job.requeue else 0, Act("annotate", attempt.job, note))
    return acts


def _of_part(part: str, job: JobAction, attempt: Attempt) -> Iterator[Act]:
    again = job.requeue or attempt.scheduler_requeued
    if job.exclude and again:
        yield Act("exclude", part, ",".join(job.exclude))
    if job.avoid and again:
        yield Act("avoid", part, ",".join(job.avoid))
    if job.requeue and attempt.ending is Ending.LAUNCH_FAILED:
        # Slurm may hold what a prolog kept off for ever. Only our own verdict is ours to release.
        yield Act("release", part)
    if job.requeue:
        # Slurm holds a requeued job back for two minutes.
        yield Act("start", part, f"now+{max(SOONEST_S, math.ceil(job.delay))}")


def may_change_jobs(attempt: Attempt, mode: Mode) -> bool:
    """True when *mode* lets us change the job: what our own prolog kept off is ours to send on in quarantine too."""
    return mode is Mode.FULL or (mode is Mode.QUARANTINE and attempt.ending is Ending.LAUNCH_FAILED)


def idle(nodes: Iterable[NodeRecord], partitions: Collection[str], without: Collection[str]) -> set[str]:
    """Return the names of *nodes* that a job in *partitions* could have at once, *without* those it excludes."""
    return {
        node.name
        for node in nodes
        if node.idle and not node.out and node.name not in without and not set(partitions).isdisjoint(node.partitions)
    }


class Memory(Protocol):
    """Which nodes jobs exclude by our doing, so that it can be undone; and when we have requeued them."""

    def requeue(self, job: str, attempt: str, now: float) -> None:
        """Slurmctld is about to be told to requeue *job* after *attempt*."""

    def note_requeued(self, job: str, attempt: str, now: float) -> None:
        """It has done so by now, if ever."""

    def exclude(self, job: str, nodes: Iterable[str], now: float) -> None:
        """*nodes* are about to be added to the ExcNodeList of *job*: they are thought to be guilty."""

    def avoid(self, job: str, nodes: Iterable[str], now: float) -> None:
        """*nodes*, and no others, are about to be in the ExcNodeList of *job* since there are better ones."""

    def avoided(self, job: str) -> frozenset[str]:
        """Return what :meth:`avoid` was told last."""


class Doer:
    """Does planned acts on slurmctld and writes down what became of each."""

    def __init__(
        self,
        client: SlurmClient,
        ledger: Ledger,
        mode: Mode,
        clock: Callable[[], float] = time.time,
        *,
        memory: Memory,
        note: Callable[[str], None] = lambda _attempt: None,
    ) -> None:
        """*memory* is told what must be known later, *note* for which attempt anything is about to be done."""
        self._note = note
        self._client = client
        self._memory = memory
        self._ledger = ledger
        self._mode = mode
        self._clock = clock
        self._kinds: dict[str, Callable[[Act, JobRecord], Awaitable[str | NotYet]]] = {
            "annotate": self._annotate,
            "end": self._ended,
            "requeue": self._requeue,
            "exclude": self._exclude,
            "avoid": self._avoid,
            "release": self._release,
            "start": self._start,
        }

    async def do(self, attempt: str) -> bool:
        """Do what is planned for *attempt* as far as it goes; True when nothing is left to do."""
        for act in self._ledger.acts(attempt=attempt, outcome=Outcome.PLANNED):
            if act.kind != "annotate" and self._forbidden(attempt):
                self._ledger.settle(act, Outcome.OBSERVED, "the mode was changed before it was done")
                continue
            self._note(attempt)
            try:
                outcome = await self._one(act)
            except SchedulerDown as error:
                log.warning("job %s: %s waits: %s", act.target, act.kind, error)
                return False
            except SchedulerError as error:
                log.error("job %s: %s was refused: %s", act.target, act.kind, error)
                self._ledger.settle(act, Outcome.FAILED, str(error))
                continue
            if isinstance(outcome, NotYet):
                log.debug("job %s: %s waits: %s", act.target, act.kind, outcome.why)
                return False
            log.info("job %s: %s: %s", act.target, act.kind, outcome)
            self._ledger.settle(act, Outcome.DONE, outcome)
        return True

    def _forbidden(self, attempt: str) -> bool:
        return not all(may_change_jobs(each.attempt, self._mode) for each in self._ledger.of_attempt(attempt))

    async def _one(self, act: Act) -> str | NotYet:
        record = await self._client.job(act.target)
        if record is None:
            raise SchedulerError("slurmctld has forgotten the job")
        owners = {each.attempt.uid for each in self._ledger.of_attempt(act.attempt)} - {None}
        if owners and record.uid is not None and record.uid not in owners:
            # Numbers begin anew when slurmctld has lost its state, or has run out of them.
            raise SchedulerError(f"the job's number now belongs to a job of user {record.uid}")
        return await self._kinds[act.kind](act, record)

    async def _annotate(self, act: Act, record: JobRecord) -> str | NotYet:
        text = comment.merge(record.admin_comment, act.value)
        if text == record.admin_comment:
            return "it was there already"
        try:
            await self._client.update_job(act.target, "AdminComment", text)
        except SchedulerError as error:
            if isinstance(error, SchedulerDown) or "already finished" not in str(error):
                raise
            return await self._annotate_finished(record, text)
        return act.value

    async def _annotate_finished(self, record: JobRecord, text: str) -> str | NotYet:
        if await self._client.annotate_finished(record.id, text):
            return f"in slurmdbd, since the job has finished: {text}"
        if record.end is not None and self._clock() - record.end > RECORDED_S:
            raise SchedulerError("slurmdbd has no record of the finished job")
        return NotYet("slurmdbd has not heard of the job's end yet")

    async def _ended(self, act: Act, record: JobRecord) -> str | NotYet:
        # Planned again since slurmctld was killed; but what is decided on has ended.
        return act.note or f"the job is {record.state} already"

    async def _requeue(self, act: Act, record: JobRecord) -> str | NotYet:
        # A slurmctld that was killed can take the attempt, or one before it, for running still.
        not_later = 0 < int(record.start or 0) <= self._began(act)
        if record.waiting:
            # We may have been killed before we heard the answer.
            self._memory.note_requeued(act.target, act.attempt, self._clock())
        if record.waiting or (record.active and not not_later):
            return f"the job is {record.state} again already"
        if not not_later:
            return "a later attempt of the job has ended already"
        self._memory.requeue(act.target, act.attempt, self._clock())
        try:
            await self._client.requeue(act.target)
        except SchedulerError as error:
            # A job that is requeued while it completes still shows COMPLETING; Slurm then says that it is pending.
            if isinstance(error, SchedulerDown) or "pending" not in str(error).lower():
                raise
            return "it was requeued already"
        finally:
            self._memory.note_requeued(act.target, act.attempt, self._clock())
        return "requeued"

    def _began(self, act: Act) -> int:
        """Return the second in which the attempt of *act* began; where that is not known, the one in which it ended."""
        ends = [int(each.attempt.end or 0) for each in self._ledger.of_attempt(act.attempt)]
        return int(act.value) or max(ends, default=0)

    async def _avoid(self, act: Act, record: JobRecord) -> str | NotYet:
        """Keep a large job off nodes that have failed, the last first, as far as others are free for it."""
        if record.completing:
            return NotYet("its nodes are not free yet")
        if record.active:
            return "the job runs again already"
        attempts = [each.attempt for each in self._ledger.of_attempt(act.attempt)]
        needed = max((len(each.nodes) for each in attempts), default=0)
        kept = set(record.excluded) - self._memory.avoided(act.target)
        free = idle(await self._client.nodes(), {each.partition for each in attempts}, kept)
        most = max(0, min(len(free) - needed, MAX_EXCLUDED - len(kept)))
        chosen = [node for node in act.value.split(",") if node in free][:most]
        if kept.union(chosen) == set(record.excluded):
            return f"{len(free)} nodes are free for its {needed}, so it avoids no others than before"
        self._memory.avoid(act.target, chosen, self._clock())
        await self._client.update_job(act.target, "ExcNodeList", hostlist.fold(kept.union(chosen)))
        return f"avoids {hostlist.fold(set(chosen)) or 'none'}, since {len(free)} nodes are free for its {needed}"

    async def _exclude(self, act: Act, record: JobRecord) -> str | NotYet:
        if record.active:
            return "the job runs again already"
        merged = set(record.excluded) | set(act.value.split(","))
        if merged == set(record.excluded):
            return "they were excluded already"
        if len(merged) > max(MAX_EXCLUDED, len(record.excluded)):
            raise SchedulerError(f"the job excludes {len(record.excluded)} nodes already, more would starve it")
        self._memory.exclude(act.target, merged - set(record.excluded), self._clock())
        await self._client.update_job(act.target, "ExcNodeList", hostlist.fold(merged))
        return f"excludes {hostlist.fold(merged)}"

    async def _release(self, act: Act, record: JobRecord) -> str | NotYet:
        if record.completing:
            return NotYet("its epilogs still run, and Slurm holds it when they end")
        if not record.held:
            return "nobody holds the job"
        if record.reason.lower() not in {"launch_failed_requeued_held", "launch failed requeued held"}:
            return f"somebody else holds the job ({record.reason}), and that is respected"
        await self._client.release(act.target)
        return "released from Slurm's own hold"

    async def _start(self, act: Act, record: JobRecord) -> str | NotYet:
        if record.completing:
            return NotYet("its epilogs still run, and Slurm sets the start time again when they end")
        if not record.waiting:
            return f"the job is {record.state} already"
        if record.held:
            return f"somebody else holds the job ({record.reason}), and that is respected"
        await self._client.update_job(act.target, "StartTime", act.value)
        return f"starts {act.value}"
