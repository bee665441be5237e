"""What the ledger keeps: interruptions with what was decided, the acts that follow, and who was taken out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from wheeltapper.attempt import Attempt
from wheeltapper.config import Mode
from wheeltapper.diagnosis.model import Diagnosis
from wheeltapper.policy.model import Decision


class Outcome(str, Enum):
    """What became of an act. ``observed`` was not done because the mode forbids it."""

    PLANNED = "planned"
    DONE = "done"
    FAILED = "failed"
    OBSERVED = "observed"


@dataclass(frozen=True, slots=True)
class Act:
    """One thing to do to a job: ``kind`` is the scheduler side's word, ``value`` its argument."""

    kind: str
    target: str
    value: str = ""
    outcome: Outcome = Outcome.PLANNED
    note: str = ""
    id: int = 0
    attempt: str = ""


@dataclass(frozen=True, slots=True)
class Interruption:
    """One attempt that did not complete, why, and what was decided. ``decided_at`` is in Unix seconds."""

    attempt: Attempt
    diagnosis: Diagnosis
    decision: Decision
    mode: Mode
    decided_at: float


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A node that was taken out, or would have been. ``key`` is the finding's identity, ``at`` in Unix seconds."""

    node: str
    key: str
    label: str
    detail: str
    reason: str
    job: str | None
    at: float
    outcome: Outcome
    note: str = ""


@dataclass(frozen=True, slots=True)
class NodeState:
    """A change of a node: ``state`` is ``out``, ``back`` or ``probation``, ``at`` in Unix seconds."""

    node: str
    state: str
    at: float
    reason: str = ""
