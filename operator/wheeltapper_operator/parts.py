"""What all keepers share."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from wheeltapper.catalogue import Catalogue
from wheeltapper.config import Config
from wheeltapper_operator.api import Api
from wheeltapper_operator.events import Events
from wheeltapper_operator.pace import Pace


@dataclass(frozen=True, slots=True)
class Counts:
    """What this operator has done since it started: ``interruptions`` by label, ``quarantines`` by their outcome."""

    interruptions: Counter[str] = field(default_factory=Counter)
    quarantines: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class Parts:
    """The API server and how fast we write to it, the configuration, the catalogue; ``clock`` gives Unix seconds."""

    api: Api
    settings: Config
    catalogue: Catalogue
    pace: Pace
    events: Events
    clock: Callable[[], float] = time.time
    counts: Counts = field(default_factory=Counts)
