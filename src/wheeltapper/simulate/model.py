"""What a replay is told, and what it tells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from wheeltapper.evidence import Source
from wheeltapper.simulate.trace import Ends


class Placing(str, Enum):
    """Which of the fit nodes a job is given."""

    ANY = "any"
    """The scheduler's own order."""
    CAREFUL = "careful"
    """Those last that have failed, as far as it was known then, the latest of them at the very end."""
    CLAIRVOYANT = "clairvoyant"
    """The nodes whose next fault is farthest away: no policy can know, and none can do better."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """Who notices a fault and what follows.

    With ``decides`` the policy's own functions do; else a person, or a timeout, takes ``notices_s`` to find the node
    and start the job again.
    """

    name: str
    placing: Placing
    decides: bool = False
    notices_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Settings:
    """One job on a cluster. Times in seconds.

    ``restart_s``: scheduling, starting and loading a checkpoint. ``ends_s``: from a fault to the end of the job and the
    decision on it. A process dies with its GPU, and nodes have a minute to report (``gather_deadline_s``); slurmctld
    gives a silent node five (SlurmdTimeout); PyTorch's watchdog waits ten. ``sees_s``: until the agent sees a fault
    that the node proves: the kernel says it at once, NVML is read once a minute, ports and the PCI bus more often.
    ``person_s``: until a person who is asked has sent the job on. ``most_excluded``: nodes that the Slurm side excludes
    from one job at most. With ``every_entry_ends`` those faults end the job too that would spare it.
    """

    job_nodes: int
    checkpoint_s: float = 3600.0
    write_s: float = 0.0
    restart_s: float = 300.0
    person_s: float = 1800.0
    most_excluded: int = 64
    every_entry_ends: bool = False
    ends_s: Mapping[Ends, float] = field(
        default_factory=lambda: {
            Ends.AT_ONCE: 60.0,
            Ends.NODE_DOWN: 300.0,
            Ends.WATCHDOG: 660.0,
        }
    )
    sees_s: Mapping[Source, float] = field(default_factory=lambda: {Source.KERNEL: 0.0, Source.CHECK: 60.0})


STRATEGIES = (
    Strategy("Wheeltapper", Placing.CAREFUL, decides=True),
    Strategy("Wheeltapper, any fit node", Placing.ANY, decides=True),
    Strategy("timeout of 30 min, then drain", Placing.ANY, notices_s=1800.0),
    Strategy("a person drains after 30 min", Placing.ANY, notices_s=1800.0 + 660.0),
    Strategy("a person drains after 120 min", Placing.ANY, notices_s=7200.0 + 660.0),
    Strategy("clairvoyant placement", Placing.CLAIRVOYANT, decides=True),
)
"""What is compared. A person is told by the job's end, ten minutes after the fault, and takes the time from there."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One replay. Times in seconds; all parts of the job's time sum to ``span``."""

    span: float
    productive: float
    lost: float
    writing: float
    noticing: float
    restarting: float
    waiting: float
    interruptions: int
    lost_by_label: Mapping[str, float]
    quarantined: int
    blocked: int
    stopped_for_a_person: int
    most_out: int

    @property
    def ettr(self) -> float:
        """The productive share of the time."""
        return self.productive / self.span
