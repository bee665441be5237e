"""Made-up histories of faults, for a check that is not the public trace: how unlike nodes are, and how often they relapse.

The rate is that of table 5 of "The Llama 3 Herd of Models" (2024): 419 interruptions in 54 days on 2,048 servers.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from wheeltapper.evidence import Disposition, Source
from wheeltapper.simulate.trace import DAY_S, Cause, Ends, Fault, Trace

PER_NODE_DAY = 419 / (54 * 2048)
NODES, DAYS = 200, 365.0
REPAIR_DAYS, RELAPSE_DAYS = 1.0, 0.5
"""Means: how long a repair takes, and how soon after it a node relapses that does."""

CAUSES = (
    Cause("hardware/gpu_xid", Source.KERNEL, Disposition.REBOOT, Ends.AT_ONCE),
    Cause("hardware/nic", Source.CHECK, Disposition.INSPECT, Ends.WATCHDOG),
    Cause("hardware/node_down", Source.SCHEDULER, Disposition.NONE, Ends.NODE_DOWN),
)


@dataclass(frozen=True, slots=True)
class Kind:
    """``shape`` is of the gamma distribution of the nodes' rates, None where all are alike; ``relapses`` is a share."""

    name: str
    shape: float | None
    relapses: float


KINDS = (
    Kind("nodes alike", None, 0.0),
    Kind("nodes alike, relapses", None, 0.2),
    Kind("lemons", 0.3, 0.0),
    Kind("lemons, relapses", 0.3, 0.2),
)


def made_up(kind: Kind, seed: int) -> Trace:
    """Return a history of this *kind*; its mean rate, relapses apart, is the same for all kinds."""
    chance = Random(seed)
    names = tuple(f"n{number:03}" for number in range(NODES))
    faults = [fault for name in names for fault in _of_node(name, kind, chance)]
    return Trace(names, tuple(sorted(faults, key=lambda each: (each.start, each.node))), DAYS * DAY_S)


def _of_node(name: str, kind: Kind, chance: Random) -> list[Fault]:
    worse = 1.0 if kind.shape is None else chance.gammavariate(kind.shape, 1 / kind.shape)
    found: list[Fault] = []
    at = chance.expovariate(PER_NODE_DAY * worse) if worse else DAYS
    while at < DAYS:
        end = min(at + chance.expovariate(1 / REPAIR_DAYS), DAYS)
        found.append(Fault(name, at * DAY_S, end * DAY_S, chance.choice(CAUSES)))
        relapses = chance.random() < kind.relapses
        at = end + chance.expovariate(1 / RELAPSE_DAYS if relapses else PER_NODE_DAY * worse)
    return found
