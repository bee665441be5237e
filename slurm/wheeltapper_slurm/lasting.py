"""What slurmctld may have forgotten of what we had it do.

slurmctld writes its state down every five seconds (SAVE_MAX_WAIT in its state_save.c) and answers before it has.
Killed, it goes on from what it wrote last: a requeue or a drain that it had confirmed never was. So what we do is noted
in the journal first, and looked at again when slurmctld was started within that time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from wheeltapper_slurm.client import SlurmClient
from wheeltapper_slurm.journal import Deed, Journal

SAVED_S = 15.0
"""After so long slurmctld has what we did on its disk: three times its own interval, for a disk that is slow."""


AWAY_S = 300.0
"""Where we were away ourselves, what slurmctld was told is looked at again for so long: a host that boots."""


class Kind(str, Enum):
    """What was done: the acts on an attempt's job, its end, or something to a node."""

    ACTS = "acts"
    DRAIN = "drain"
    RESUME = "resume"
    REBOOT = "reboot"
    MOVE = "move"


@dataclass(frozen=True, slots=True)
class Lasting:
    """Notes what we are about to do, and tells whether slurmctld may have forgotten it."""

    client: SlurmClient
    journal: Journal
    clock: Callable[[], float]

    def note(self, kind: Kind, name: str) -> None:
        """*kind* is about to be done to *name*, an attempt or a node."""
        self.journal.note_deed(kind.value, name, self.clock())

    async def forgot(self, kind: Kind, name: str) -> bool:
        """True when *kind* was done, and slurmctld was started before it can be sure to have saved it.

        Raises:
            SchedulerError: slurmctld did not answer.
        """
        deeds = [deed for deed in self.journal.deeds() if (deed.kind, deed.name) == (kind.value, name)]
        started = await self.started() if deeds else None
        return started is not None and any(may_be_forgotten(deed, started) for deed in deeds)

    async def started(self) -> float | None:
        """Return when slurmctld was started, in whole Unix seconds; None when it does not say."""
        said = (await self.client.configuration()).get("BOOT_TIME", "")
        try:
            return datetime.strptime(said, "%Y-%m-%dT%H:%M:%S").astimezone().timestamp()
        except ValueError:
            return None


def may_be_forgotten(deed: Deed, started: float) -> bool:
    """True when slurmctld, *started* at a whole Unix second, may not have saved some of *deed*.

    A deed that was saved before is not asked for: it was struck out in time, unless we were away. Then slurmctld may
    have been started several times, and tells the last one only.
    """
    return int(deed.since) <= started <= deed.until + AWAY_S
