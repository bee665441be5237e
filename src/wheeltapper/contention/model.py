"""One look at a job's cgroup and at the machine around it. All counters; what they say lies between two samples."""

from __future__ import annotations

from dataclasses import dataclass, field

SIGNATURE = "contention."
"""How the signatures of what a job's own cgroup says begin."""


@dataclass(frozen=True, slots=True)
class CpuTime:
    """What the CPU limit of one cgroup did since the cgroup was made.

    ``stopped_s`` is summed over the processors on which its threads were stopped. ``cpus`` is the limit, None without.
    """

    path: str
    periods: int
    throttled: int
    stopped_s: float
    cpus: float | None
    period_s: float


@dataclass(frozen=True, slots=True)
class Memory:
    """``kills`` counts processes of the cgroup that any killer took; ``refusals`` how often its own limit was met.

    ``peak`` and ``limit`` are bytes, None where the kernel does not tell or nothing limits.
    """

    kills: int
    refusals: int
    peak: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Stall:
    """Seconds in which some tasks, and in which all tasks that had work, stood still for want of a resource."""

    some_s: float
    full_s: float


@dataclass(frozen=True, slots=True)
class Pages:
    """Pages of all memory nodes that were given out where they were wanted, and elsewhere."""

    hits: int
    misses: int


@dataclass(frozen=True, slots=True)
class Sample:
    """What was read at one moment: ``at`` in Unix seconds, ``clock`` in seconds that no clock setting changes.

    ``cpu`` holds the cgroup itself and then those above it that have a limit; ``stalls`` are the cgroup's own,
    ``node_stalls`` the machine's, both by ``cpu``, ``memory`` and ``io``. None or absent is what the kernel does not
    tell.
    """

    at: float
    clock: float
    cgroup: str
    cpu: tuple[CpuTime, ...] = ()
    memory: Memory | None = None
    pids_refused: int | None = None
    stalls: dict[str, Stall] = field(default_factory=dict)
    node_stalls: dict[str, Stall] = field(default_factory=dict)
    pages: Pages | None = None
