"""What the parts of the controller service share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from wheeltapper.config import Config
from wheeltapper.ledger.store import Ledger
from wheeltapper_slurm.arrivals import Arrivals
from wheeltapper_slurm.client import SlurmClient
from wheeltapper_slurm.healths import Healths
from wheeltapper_slurm.journal import Journal
from wheeltapper_slurm.limits import Refusals
from wheeltapper_slurm.quarantine import Gate


@dataclass(frozen=True, slots=True)
class Parts:
    """One of each, made once by the service. ``clock`` gives Unix seconds."""

    config: Config
    client: SlurmClient
    ledger: Ledger
    journal: Journal
    gate: Gate
    arrivals: Arrivals
    healths: Healths
    clock: Callable[[], float]
    refusals: Refusals = field(default_factory=Refusals)
