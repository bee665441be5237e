"""What all keepers share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from wheeltapper.catalogue import Catalogue
from wheeltapper.config import Config
from wheeltapper_operator.api import Api
from wheeltapper_operator.events import Events
from wheeltapper_operator.pace import Pace


@dataclass(frozen=True, slots=True)
class Parts:
    """The API server and how fast we write to it, the configuration, the catalogue; ``clock`` gives Unix seconds."""

    api: Api
    settings: Config
    catalogue: Catalogue
    pace: Pace
    events: Events
    clock: Callable[[], float] = time.time
