"""Does again what slurmctld may have forgotten when it was killed."""

from __future__ import annotations

import logging

from wheeltapper_slurm.journal import Deed
from wheeltapper_slurm.lasting import SAVED_S, Kind, Lasting, may_be_forgotten
from wheeltapper_slurm.parts import Parts

log = logging.getLogger(__name__)

PAUSE_S = 2.0
"""Between two looks at when slurmctld was started: one RPC, and only for a quarter of a minute after a deed."""


class Recall:
    """Looks at the deeds of the last seconds; each looks first whether it is still to be done."""

    def __init__(self, parts: Parts, lasting: Lasting) -> None:
        self._parts = parts
        self._lasting = lasting
        self._due = 0.0
        self._looked: set[tuple[str, str, float, float | None]] = set()

    async def look(self) -> bool:
        """Look at what was done lately.

        Raises:
            SchedulerError: slurmctld did not answer; a later look finds all that is left.
        """
        now = self._parts.clock()
        deeds = self._parts.journal.deeds()
        if not deeds or now < self._due:
            return True
        self._due = now + PAUSE_S
        started = await self._lasting.started()
        self._looked &= {_look_of(deed, started) for deed in deeds}
        for deed in deeds:
            again = started is not None and may_be_forgotten(deed, started)
            if again and _look_of(deed, started) not in self._looked:
                await self._again(Kind(deed.kind), deed.name)
                self._looked.add(_look_of(deed, started))
            # One that was started in the deed's own second may have been told after its start, and saved nothing yet.
            if (again and started is not None and started > deed.until) or now - deed.until > SAVED_S:
                self._parts.journal.forget_deed(deed)
        return True

    async def _again(self, kind: Kind, name: str) -> None:
        if kind is Kind.ACTS:
            if self._parts.ledger.plan_again(name):
                log.warning("slurmctld was started again; what was done for attempt %s is looked at once more", name)
        elif kind is Kind.REBOOT:
            self._parts.journal.forget_reboot(name)
        elif kind is Kind.MOVE:
            self._parts.journal.note_moved(name, done=False)
        else:
            await self._parts.gate.again(name)


def _look_of(deed: Deed, started: float | None) -> tuple[str, str, float, float | None]:
    """Return what is looked at once: without ``until``, which moves on when the look itself does the deed again."""
    return deed.kind, deed.name, deed.since, started
