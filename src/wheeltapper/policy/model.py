"""The shape of a decision: what is done to nodes and to the job, each with a reason a person can read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Payer(str, Enum):
    """Whose retry budget a requeue uses up. ``blind`` pays for ends that nothing explains."""

    NOBODY = "nobody"
    USER = "user"
    INFRASTRUCTURE = "infrastructure"
    BLIND = "blind"


@dataclass(frozen=True, slots=True)
class NodeAction:
    """Take *node* out of service; ``reason`` follows the reason grammar."""

    node: str
    reason: str


@dataclass(frozen=True, slots=True)
class JobAction:
    """Run the job again after ``delay`` seconds without the nodes in ``exclude``; or, without ``requeue``, do not.

    ``avoid`` are nodes that have failed lately, the last first: the job does without as many as it finds others for.
    """

    requeue: bool
    reason: str
    delay: float = 0.0
    exclude: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()
    payer: Payer = Payer.NOBODY


@dataclass(frozen=True, slots=True)
class Decision:
    """What the policy concludes from one diagnosis. ``quarantine`` is empty unless hardware was confirmed."""

    job: JobAction
    quarantine: tuple[NodeAction, ...] = ()


@dataclass(frozen=True, slots=True)
class History:
    """What the ledger knows of earlier attempts of the same job: requeues that we made, by who paid.

    ``infrastructure`` counts those within the policy's ``infrastructure_retry_h`` only.
    ``roots`` holds the names of earlier roots, each with the step at which it stopped the job.
    """

    user: int = 0
    infrastructure: int = 0
    blind: int = 0
    roots: frozenset[tuple[str, int]] = frozenset()
