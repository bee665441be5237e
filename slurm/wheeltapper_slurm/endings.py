"""What slurmctld and slurmdbd have to say of an attempt that is over: by whom it is silent, and how it ended."""

from __future__ import annotations

from wheeltapper.attempt import Ending
from wheeltapper_slurm import gather
from wheeltapper_slurm.gather import Before, Gathered
from wheeltapper_slurm.journal import OpenAttempt
from wheeltapper_slurm.lasting import Lasting
from wheeltapper_slurm.parts import Parts
from wheeltapper_slurm.records import JobRecord

GRACE_S = 2.0
"""After this long without a report, slurmctld is asked whether the node is down: asking at once would be one RPC
per node and job."""

BOOKS_S = 5.0
"""How long slurmdbd may take to hear of an end: slurmctld tells it within a second or two."""


class Endings:
    """Asks as seldom as it can; the judgement on what it hears is in :mod:`wheeltapper_slurm.gather`."""

    def __init__(self, parts: Parts, lasting: Lasting) -> None:
        self._parts = parts
        self._lasting = lasting
        self._looked: dict[str, tuple[float, frozenset[str]]] = {}

    async def silent(self, attempt: OpenAttempt, missing: set[str], now: float) -> frozenset[str]:
        """Return the missing nodes that slurmctld itself has given up; asked at most once in :data:`GRACE_S`."""
        at, silent = self._looked.get(attempt.key, (attempt.ended.at, frozenset()))
        if not missing or now - at < GRACE_S:
            return silent
        found = {node.name for node in await self._parts.client.nodes() if node.name in missing and node.silent}
        self._looked[attempt.key] = (now, frozenset(found))
        return frozenset(found)

    async def how(
        self, gathered: Gathered, record: JobRecord | None, silent: frozenset[str], now: float
    ) -> Ending | None:
        """Return how the attempt ended, or None while that cannot be told; of a requeue slurmdbd knows the cause."""
        attempt = gathered.attempt
        how = gather.ending(gathered, record, silent)
        if how is not Ending.REQUEUED:
            return how
        how = gather.by_the_books(await self._parts.client.past(attempt.ended.id), attempt.ended.at)
        if how is None and record is not None and gather.forgotten(attempt, record):
            # The exit code 0 is all that is left of it, and no cause to run it again. A moment later slurmctld may have
            # gone on from where it was, and show nothing any more of having gone back.
            return Ending.COMPLETED
        if how is None and now >= attempt.ended.at + BOOKS_S:
            return Ending.REQUEUED
        return how

    async def told_before(self, gathered: Gathered, before: Before, silent: frozenset[str]) -> bool:
        """True for an end of an attempt that was decided on already.

        slurmctld tells an end again by itself, and with it nodes run epilogs again, only after it was started anew. So
        it is none when slurmd has left the prolog out, as it does when a job returns at once, nor when the node has
        failed that could tell of it: then the job may be PENDING again before we can ask when it began.
        """
        if before.brought(gathered.attempt):
            return True
        if not gathered.nothing_new(before.decided):
            return False
        failed = not silent.isdisjoint(gathered.attempt.ended.nodes)
        if before.decided is None:
            return not failed
        if not gathered.reports and not failed:
            return True
        started = await self._lasting.started()
        return started is None or started >= int(before.decided)

    def forget(self, attempt: OpenAttempt) -> None:
        """*attempt* is decided."""
        self._looked.pop(attempt.key, None)
