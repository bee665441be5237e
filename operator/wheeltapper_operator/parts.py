"""What all keepers share."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from wheeltapper.catalogue import Catalogue
from wheeltapper.config import Config
from wheeltapper.errors import SchedulerError
from wheeltapper_operator.api import Api
from wheeltapper_operator.events import Events
from wheeltapper_operator.pace import Pace


class LeadsNoMoreError(SchedulerError):
    """This operator may not write: another may lead by now."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What this operator has done since it started: ``interruptions`` by label, ``quarantines`` by their outcome."""

    interruptions: Counter[str] = field(default_factory=Counter)
    quarantines: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Parts:
    """The API server and how fast we write to it, the configuration, the catalogue.

    ``leads`` says whether this operator may act at this moment; ``clock`` gives Unix seconds.
    """

    api: Api
    settings: Config
    catalogue: Catalogue
    pace: Pace
    events: Events
    leads: Callable[[], bool]
    clock: Callable[[], float] = time.time
    counts: Counts = field(default_factory=Counts)

    async def turn(self) -> None:
        """Wait until it is our turn to write.

        A process that stood still, its machine frozen or overloaded, goes on where it was, before it learns that its
        lease has run out. So it looks at the clock before each write.

        Raises:
            LeadsNoMoreError: this operator no longer leads.
        """
        await self.pace.step()
        if not self.leads():
            raise LeadsNoMoreError("this operator no longer leads")
