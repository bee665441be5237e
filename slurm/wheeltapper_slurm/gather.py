"""Which reports belong to an attempt, who is still missing, and how the attempt ended: all pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from wheeltapper.attempt import Attempt, Ending
from wheeltapper.wire import JobStay, Leave, LogReport, Report
from wheeltapper_slurm import wishes
from wheeltapper_slurm.journal import OpenAttempt
from wheeltapper_slurm.records import JobRecord, PastAttempt
from wheeltapper_slurm.spool import Ended

CLOCK_SKEW_S = 5.0
"""How far a node's clock may be from the controller's: more than NTP allows, less than two attempts are apart."""

SIG_OOM = 125
"""The signal number by which Slurm marks a step that the kernel's OOM killer ended (its own SIG_OOM)."""

SLURMS_OWN = frozenset({1, 54})
"""Signal numbers of no signal: 24.11 and 26.05 write 0:1 when a node fails (22.05: 0:0), and 0:54 when a prolog does,
which is the low part of ESLURMD_PROLOG_FAILED, 4022."""

_STATES = {
    "COMPLETED": Ending.COMPLETED,
    "FAILED": Ending.FAILED,
    "CANCELLED": Ending.CANCELLED,
    "TIMEOUT": Ending.TIME_LIMIT,
    "DEADLINE": Ending.TIME_LIMIT,
    "NODE_FAIL": Ending.NODE_FAIL,
    "BOOT_FAIL": Ending.NODE_FAIL,
    "OUT_OF_MEMORY": Ending.OUT_OF_MEMORY,
    "PREEMPTED": Ending.PREEMPTED,
    # Another cluster of the federation has started the job.
    "REVOKED": Ending.CANCELLED,
}

AnyReport = TypeVar("AnyReport", Report, LogReport)


@dataclass(frozen=True, slots=True)
class Gathered:
    """All that is known of one open attempt."""

    attempt: OpenAttempt
    reports: tuple[Report, ...]
    logs: tuple[LogReport, ...]
    kept_off: tuple[Leave, ...]
    old: tuple[Report | LogReport, ...] = ()
    """Accounts of an earlier attempt that came, or came again, after the decision on it."""

    @property
    def size(self) -> int:
        """How many reports there are."""
        return len(self.reports) + len(self.logs)

    def missing(self, silent: Iterable[str] = ()) -> set[str]:
        """Return the nodes that have not reported, without the *silent* ones, of which no report can come."""
        return set(self.attempt.ended.nodes) - {report.node for report in self.reports} - set(silent)

    def logs_missing(self) -> bool:
        """True when the batch host has reported, and what the job's logs hold is still to come."""
        host = self.attempt.batch_host
        if host is None:
            return False
        return host in {report.node for report in self.reports} and host not in {report.node for report in self.logs}

    def may_grow(self) -> bool:
        """True when a report is missing that could change the diagnosis; what our prolog kept off is explained."""
        return not self.kept_off and bool(self.missing() or self.logs_missing())

    def nothing_new(self, decided: float | None = None) -> bool:
        """True for an end that nothing ties to an attempt of its own.

        slurmctld runs EpilogSlurmctld again after a restart, and nodes their epilogs; the start that it shows then may
        be the next attempt's. *decided* is when the attempt ended that was decided on last (Unix seconds): then only a
        report whose prolog ran since is a sign of another one, and an epilog that runs again has no prolog. Nor is an
        attempt another one that had begun before that end (Slurm tells a start in whole seconds): when its end was told
        first, slurmctld may not have said when it began.
        """
        ended = self.attempt.ended
        if self.kept_off or ended.start is not None or ended.sluid:
            return False
        start, prologs = self.attempt.start, [report.stay.prolog_at for report in self.reports]
        if decided is not None and (prologs or self.old or (start is not None and int(start) < int(decided))):
            return all(at is None for at in prologs)
        return start is None and not prologs


def key(ended: Ended, start: float | None) -> str:
    """Return the attempt's identity: SLUID, else job id and start time; the restart count is none (see the facts)."""
    if ended.sluid:
        return ended.sluid
    return f"{ended.id}@{int(start if start is not None else ended.at)}"


def belongs(stay: JobStay, start: float | None, ended_at: float) -> bool:
    """True when a node's *stay* was of the attempt that ran from *start* to *ended_at* (Unix seconds).

    A job that is requeued keeps its number, so the time decides: the stay began before this attempt ended, and
    ended after this attempt began.
    """
    began = stay.prolog_at if stay.prolog_at is not None else stay.epilog_at
    if began is not None and began > ended_at + CLOCK_SKEW_S:
        return False
    return start is None or stay.epilog_at is None or stay.epilog_at >= start - CLOCK_SKEW_S


@dataclass(frozen=True, slots=True)
class Before:
    """What an earlier attempt of the job has left: when it ended (Unix seconds), and each node's last epilog of it.

    ``epilogs`` has the job, or its component, and the node as keys; the times are of the node's own clock.
    ``requeued`` tells from when to when slurmctld was busy with our last requeue of the job.
    """

    decided: float | None = None
    epilogs: Mapping[tuple[str, str], float] = field(default_factory=dict)
    requeued: tuple[float, float] | None = None

    def brought(self, attempt: OpenAttempt) -> bool:
        """True when our requeue has met a job whose end slurmctld had forgotten: *attempt* was decided on already.

        22.05 then shows the second of the requeue as the start of what ends. No attempt can begin in it: we let a job
        start a second after its requeue at the earliest, and Slurm two minutes after it.
        """
        if self.requeued is None or attempt.start is None or attempt.ended.start is not None:
            return False
        asked, answered = self.requeued
        return int(asked) <= int(attempt.start) <= int(answered)

    def is_later(self, stay: JobStay, attempt: OpenAttempt) -> bool:
        """True for a *stay* that began after our last requeue of the job, when *attempt* had ended before that."""
        if self.requeued is None or stay.prolog_at is None:
            return False
        return attempt.ended.at <= self.requeued[1] <= stay.prolog_at

    def covers(self, report: Report | LogReport) -> bool:
        """True when *report* is of that attempt: it comes again when its node was told to ask later."""
        began, ended = report.stay.prolog_at, report.stay.epilog_at
        last = self.epilogs.get((report.stay.job, report.node))
        if began is None:
            return False
        if last is not None and ended is not None:
            # Not its prolog: where a node fails, the next attempt may be there before the last one's epilog is over.
            return ended <= last
        return self.decided is not None and began <= self.decided - CLOCK_SKEW_S


def gather(
    attempt: OpenAttempt,
    reports: Sequence[Report],
    logs: Sequence[LogReport],
    kept_off: Sequence[tuple[float, Leave]],
    before: Before | None = None,
) -> Gathered:
    """Return what belongs to *attempt* of all that was received on its job; *before* it there may have been another."""
    start, ended_at = attempt.start, attempt.ended.at
    before = before or Before()
    own, own_logs = _own(reports, attempt, before), _own(logs, attempt, before)
    return Gathered(
        attempt,
        tuple(each for each in own if not before.covers(each)),
        tuple(each for each in own_logs if not before.covers(each)),
        tuple(
            leave
            for at, leave in kept_off
            if _was_there(leave.node, attempt)
            and at <= ended_at + CLOCK_SKEW_S
            and (start is None or at >= start - CLOCK_SKEW_S)
        ),
        (
            *(each for each in own if before.covers(each)),
            *(each for each in own_logs if before.covers(each)),
        ),
    )


def _own(reports: Sequence[AnyReport], attempt: OpenAttempt, before: Before) -> tuple[AnyReport, ...]:
    return tuple(
        report
        for report in reports
        if _was_there(report.node, attempt)
        and belongs(report.stay, attempt.start, attempt.ended.at)
        and not before.is_later(report.stay, attempt)
    )


def _was_there(node: str, attempt: OpenAttempt) -> bool:
    """True for a node of the attempt; another can have nothing to say of it. Of some ends the nodes are not told."""
    return not attempt.ended.nodes or node in attempt.ended.nodes


def ending(gathered: Gathered, record: JobRecord | None, silent: Iterable[str]) -> Ending | None:
    """Return how the attempt ended, or None while that cannot be told.

    An exit code of 0:0 says nothing (cancelled and timed-out jobs have it too), and one that Slurm itself made up no
    more, so where the record does not tell either, such a job is looked at again once it has left COMPLETING.
    """
    ended = gathered.attempt.ended
    if gathered.kept_off:
        # Slurm requeues it by itself, and what is left to do can be done only when it has.
        return None if record is not None and record.completing else Ending.LAUNCH_FAILED
    if ended.signal == SIG_OOM:
        return Ending.OUT_OF_MEMORY
    failed = ended.exit_code != 0 or ended.signal not in {0, *SLURMS_OWN}
    if record is not None and record.completing and record.expedited:
        return None  # Slurm decides by the epilogs whether it requeues the job at once, and we leave it to that
    if record is None:
        return Ending.FAILED if failed else Ending.UNKNOWN
    state = record.ended_as or record.state
    if state in _STATES and not _is_of_another(gathered.attempt, record):
        return _STATES[state]
    if failed:
        return Ending.FAILED
    if record.completing and not forgotten(gathered.attempt, record):
        return None
    return Ending.NODE_FAIL if set(silent) & set(ended.nodes) else Ending.REQUEUED


def start_of(ended: Ended, record: JobRecord | None) -> float | None:
    """Return when the attempt began that has *ended*; None when *record*, what slurmctld shows, is a later one's."""
    if ended.start is not None or record is None or record.start is None:
        return ended.start
    return None if record.waiting or _is_elsewhere_or_later(ended, record) else record.start


def _is_elsewhere_or_later(ended: Ended, record: JobRecord) -> bool:
    elsewhere = record.batch_host is not None and bool(ended.nodes) and record.batch_host not in ended.nodes
    return elsewhere or (record.start or 0.0) > ended.at


def _is_earlier(attempt: OpenAttempt, record: JobRecord) -> bool:
    if record.waiting or attempt.start is None:
        return False
    return 0 < int(record.start or 0) < int(attempt.start)


def _is_of_another(attempt: OpenAttempt, record: JobRecord) -> bool:
    """True when *record* shows an attempt elsewhere, a later or an earlier one, and not *attempt*, which has ended."""
    return _is_elsewhere_or_later(attempt.ended, record) or _is_earlier(attempt, record)


def forgotten(attempt: OpenAttempt, record: JobRecord) -> bool:
    """True when slurmctld was killed and has lost the end of *attempt*.

    It takes the attempt for running, or shows one before it.
    """
    runs = record.active and attempt.start is not None and int(record.start or 0) == int(attempt.start)
    ended_before = record.state in _STATES and record.end is not None and record.end <= attempt.ended.at
    return runs or _is_earlier(attempt, record) or (ended_before and _is_of_another(attempt, record))


def by_the_books(past: Iterable[PastAttempt], ended_at: float) -> Ending | None:
    """Return how slurmdbd says that the attempt ended which was over at *ended_at*; None when it does not say.

    Of a job that Slurm has requeued, slurmctld shows the next attempt alone.
    """
    booked = _booked(past, ended_at)
    return _STATES.get(booked.state) if booked is not None else None


def _booked(past: Iterable[PastAttempt], ended_at: float) -> PastAttempt | None:
    near = [each for each in past if abs(each.end - ended_at) <= CLOCK_SKEW_S]
    return max(near, key=lambda each: each.end, default=None)


def step(gathered: Gathered) -> int | None:
    """Return the last training step that the job's logs tell of."""
    return max((log.step for log in gathered.logs if log.step is not None), default=None)


def began(gathered: Gathered, past: Iterable[PastAttempt]) -> float | None:
    """Return when an attempt began that Slurm has requeued while it ran, by its first prolog, or by slurmdbd.

    22.05 shows the second of the requeue as its start, or that of the next attempt; later releases tell it.
    """
    attempt = gathered.attempt
    if attempt.ended.start is not None:
        return attempt.start
    prologs = [each.stay.prolog_at for each in gathered.reports if each.stay.prolog_at is not None]
    booked = _booked(past, attempt.ended.at)
    starts = prologs or ([booked.start] if booked is not None and booked.start is not None else [])
    return min([*starts, *([attempt.start] if attempt.start is not None else [])], default=None)


def attempt(gathered: Gathered, how: Ending, record: JobRecord | None, silent: Iterable[str]) -> Attempt:
    """Return the attempt as the brain wants it."""
    source, ended = gathered.attempt, gathered.attempt.ended
    host = source.batch_host
    nodes = tuple(sorted(ended.nodes, key=lambda node: node != host))
    dead = sorted(set(silent) & set(ended.nodes))
    return Attempt(
        key=source.key,
        job=ended.target,
        nodes=nodes,
        ending=how,
        exit_code=ended.exit_code,
        signal=ended.signal,
        reason=record.reason if record else "",
        failed_node=dead[0] if dead and how is Ending.NODE_FAIL else None,
        name=ended.name,
        user=ended.user,
        uid=ended.uid,
        partition=ended.partition,
        batch_host=host,
        start=source.start,
        end=ended.at,
        batch=record.batch if record else True,
        requeueable=record.requeueable if record else False,
        leave_alone="" if record else "slurmctld does not know the job any more",
        step=step(gathered),
        wants_requeue=wishes.wants_requeue(ended.comment),
        scheduler_requeued=record is not None
        and not record.completing
        and (record.state not in _STATES or _is_of_another(source, record))
        and not forgotten(source, record),
        gpus=sum({report.node: len(report.stay.gpus) for report in gathered.reports}.values()),
    )
