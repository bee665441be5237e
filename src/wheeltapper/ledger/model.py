"""What the ledger keeps: interruptions with what was decided, the acts that follow, and who was taken out."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from wheeltapper.attempt import Attempt
from wheeltapper.config import Mode
from wheeltapper.diagnosis.model import Diagnosis
from wheeltapper.evidence import Disposition
from wheeltapper.policy.model import Decision


class Outcome(str, Enum):
    """What became of an act. ``observed`` was not done because the mode forbids it.

    Of a node that was taken out, ``released`` says that we put it back, and ``undone`` that a person did.
    """

    PLANNED = "planned"
    DONE = "done"
    FAILED = "failed"
    OBSERVED = "observed"
    RELEASED = "released"
    UNDONE = "undone"


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
    """One attempt that did not complete, why, and what was decided. ``decided_at`` is in Unix seconds.

    ``amended_at`` is when a report came late and the attempt was looked at again.
    """

    attempt: Attempt
    diagnosis: Diagnosis
    decision: Decision
    mode: Mode
    decided_at: float
    amended_at: float | None = None


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A node that was taken out, would have been, or came back. ``key`` is the finding's, ``at`` in Unix seconds.

    ``disposition`` is the most that its faults ask for, ``boot_id`` the boot in which they were found. ``first`` is
    False when the node was out already and a fault was found that asks for more.
    """

    node: str
    key: str
    label: str
    detail: str
    reason: str
    job: str | None
    at: float
    outcome: Outcome
    note: str = ""
    disposition: Disposition = Disposition.NONE
    boot_id: str = ""
    first: bool = True


@dataclass(frozen=True, slots=True)
class NodeState:
    """A change of a node: ``state`` is ``out`` or ``back``, ``at`` in Unix seconds."""

    node: str
    state: str
    at: float
    reason: str = ""
