"""One attempt of one job, as its scheduler knows it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Ending(str, Enum):
    """How the scheduler says that the attempt ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    TIME_LIMIT = "time_limit"
    CANCELLED = "cancelled"
    PREEMPTED = "preempted"
    NODE_FAIL = "node_fail"
    OUT_OF_MEMORY = "out_of_memory"
    LAUNCH_FAILED = "launch_failed"
    REQUEUED = "requeued"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Attempt:
    """What is known of an attempt, without any opinion on it.

    ``key`` is the attempt's identity (never the restart count); ``job`` is the id that actions use
    (``12_3`` for a task of an array, never the array's master id); times are seconds since the Unix epoch.
    ``nodes`` is in the scheduler's order, the batch host first where it is known. ``step`` is the last training step
    that its logs tell of; ``wants_requeue`` what the user has asked for, None when nothing; ``components`` are the ids
    of the other parts of a job that consists of several, which acts must reach too. ``gpus`` counts those of
    all nodes, 0 where nobody said. ``leave_alone`` says why nobody but another may touch the job; empty when we may.
    """

    key: str
    job: str
    nodes: tuple[str, ...] = ()
    ending: Ending = Ending.UNKNOWN
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    failed_node: str | None = None
    name: str = ""
    user: str = ""
    uid: int | None = None
    partition: str = ""
    batch_host: str | None = None
    start: float | None = None
    end: float | None = None
    batch: bool = True
    requeueable: bool = True
    scheduler_requeued: bool = False
    logs: tuple[str, ...] = ()
    step: int | None = None
    wants_requeue: bool | None = None
    components: tuple[str, ...] = ()
    gpus: int = 0
    leave_alone: str = ""
