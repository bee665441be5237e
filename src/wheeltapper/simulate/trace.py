"""A trace of faults: which node was unfit from when to when, and what was found. Reads the format of InfiniteHBD-Trace.

That format is a JSON list of events ``fault_start`` and ``fault_end`` with a node, a time in days, and a type in three
steps (level, class, description); a start belongs to the first end of the same node and type that follows.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from wheeltapper.errors import WheeltapperError
from wheeltapper.evidence import Disposition, Source

DAY_S = 86_400.0


class Ends(Enum):
    """How a fault ends a job on the node."""

    AT_ONCE = "at once"
    """The process dies with its GPU."""
    NODE_DOWN = "node down"
    """The node falls silent, and the scheduler notices."""
    WATCHDOG = "watchdog"
    """The others wait for the node until the collective's timeout."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What the product finds for a class of faults: its label, what proves it, and how it ends a job."""

    label: str
    source: Source
    disposition: Disposition
    ends: Ends


@dataclass(frozen=True, slots=True)
class Fault:
    """A node that was unfit from ``start`` to ``end`` (seconds since the trace began).

    ``spares_jobs`` marks what stands in the trace and ends no job that runs on the node (:data:`_SPARES_JOBS`).
    """

    node: str
    start: float
    end: float
    cause: Cause
    spares_jobs: bool = False


@dataclass(frozen=True, slots=True)
class Trace:
    """Faults in the order of their start, on the nodes that were watched for ``span`` seconds."""

    nodes: tuple[str, ...]
    faults: tuple[Fault, ...]
    span: float


_KERNEL_GPU = Cause("hardware/gpu_xid", Source.KERNEL, Disposition.REBOOT, Ends.AT_ONCE)
_NODE_DOWN = Cause("hardware/node_down", Source.SCHEDULER, Disposition.NONE, Ends.NODE_DOWN)

_BY_WORD: tuple[tuple[str, Cause], ...] = (
    ("DBE", Cause("hardware/ecc_uncorrectable", Source.KERNEL, Disposition.RESET_GPU, Ends.AT_ONCE)),
    ("SBE", Cause("hardware/ecc_remap", Source.CHECK, Disposition.INSPECT, Ends.WATCHDOG)),
    ("GPU Lost", Cause("hardware/gpu_lost", Source.CHECK, Disposition.REBOOT, Ends.AT_ONCE)),
    ("GPU device not found", Cause("hardware/gpu_lost", Source.CHECK, Disposition.REBOOT, Ends.AT_ONCE)),
    ("GPU xid", _KERNEL_GPU),
    ("GPU device unknow", _KERNEL_GPU),
    ("PCI link", Cause("hardware/pcie", Source.CHECK, Disposition.INSPECT, Ends.WATCHDOG)),
    ("Temperature", Cause("hardware/thermal", Source.CHECK, Disposition.INSPECT, Ends.WATCHDOG)),
    ("Machine Check", Cause("hardware/host_cpu", Source.KERNEL, Disposition.INSPECT, Ends.NODE_DOWN)),
)
"""Words of a description, the first that fits."""

_BY_CLASS: Mapping[str, Cause] = {
    "GPU": Cause("hardware/gpu_xid", Source.CHECK, Disposition.INSPECT, Ends.WATCHDOG),
    "Parameter Plane Cable": Cause("hardware/nic", Source.CHECK, Disposition.INSPECT, Ends.WATCHDOG),
    "NIC": Cause("hardware/nic", Source.CHECK, Disposition.INSPECT, Ends.WATCHDOG),
    "Power Supply": Cause("hardware/power", Source.SCHEDULER, Disposition.NONE, Ends.WATCHDOG),
    "Fan": Cause("hardware/thermal", Source.SCHEDULER, Disposition.NONE, Ends.WATCHDOG),
    "File System": Cause("hardware/storage", Source.KERNEL, Disposition.INSPECT, Ends.WATCHDOG),
}
"""Classes that say enough; all others only say that the node was gone, and so does the scheduler."""

_SPARES_JOBS = frozenset({"Power Supply", "Fan", "Stress Test Failure", "Test"})
"""Classes of which an entry ends no job that runs; all others do.

A server has more than one supply and fan, and has an event of its own for when what is left no longer suffices (the
IPMI specification, as ``inputs/readers/bmc_events`` reads it: one failed part convicts no node). A stress test loads
a node to its limits, so it is run where no job is (DCGM's guide: levels 3 and 4 after a failure, by an administrator).
"""


def cause_of(kind: Mapping[str, str]) -> Cause:
    """Return what the product finds for a fault of this *kind*."""
    by_word = next((cause for word, cause in _BY_WORD if word in kind["Desc"]), None)
    return by_word or _BY_CLASS.get(kind["Class"], _NODE_DOWN)


def load(path: Path, nodes: int) -> Trace:
    """Return the trace at *path*, of *nodes* nodes: those that never failed are not in the file.

    Raises:
        WheeltapperError: the file cannot be read or is no such trace.
    """
    try:
        events = json.loads(path.read_text(encoding="utf-8"))
        faults = _paired(events)
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise WheeltapperError(f"{path} is no trace of faults: {error!r}") from error
    named = sorted({fault.node for fault in faults})
    if len(named) > nodes:
        raise WheeltapperError(f"{path} names {len(named)} nodes, more than the {nodes} that it is said to watch")
    healthy = [f"healthy{number:04}" for number in range(nodes - len(named))]
    span = max((fault.end for fault in faults), default=0.0)
    return Trace((*named, *healthy), tuple(sorted(faults, key=lambda fault: (fault.start, fault.node))), span)


def _paired(events: Sequence[Mapping[str, Any]]) -> list[Fault]:
    begun: dict[tuple[str, ...], list[float]] = defaultdict(list)
    faults = []
    for event in events:
        kind, at = event["fault_type"], float(event["event_time"]) * DAY_S
        key = (event["node_id"], kind["Level"], kind["Class"], kind["Desc"])
        if event["event_type"] == "fault_start":
            begun[key].append(at)
        else:
            start = begun[key].pop(0)
            faults.append(Fault(key[0], start, at, cause_of(kind), kind["Class"] in _SPARES_JOBS))
    return faults
