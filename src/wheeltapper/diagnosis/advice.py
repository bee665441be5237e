"""What a person is advised to do, from the diagnosis alone: no history, no budget, no scheduler."""

from __future__ import annotations

from enum import Enum

from wheeltapper import labels
from wheeltapper.diagnosis.model import Diagnosis

AGAIN = frozenset({"scheduler/preempted", "scheduler/evicted", "scheduler/maintenance"})
"""Ends that the scheduler brought about for its own reasons."""


class Action(str, Enum):
    """The advice, in the order from the gravest."""

    DRAIN_NODE = "drain_node"
    REQUEUE_EXCLUDE_NODE = "requeue_exclude_node"
    REQUEUE = "requeue"
    NO_REQUEUE = "no_requeue"
    NONE = "none"


def nothing_happened(diagnosis: Diagnosis) -> bool:
    """True when the evidence holds no sign at all that anything was interrupted."""
    return diagnosis.label == labels.UNKNOWN and diagnosis.symptom is None and diagnosis.root is None


def advise(diagnosis: Diagnosis) -> Action:
    """Return what to do about *diagnosis*.

    A drain is advised for what the driver itself calls broken, also where a job's log is the only witness: whoever
    reads this looks before they act. The policy acts on confirmed faults alone.
    """
    if nothing_happened(diagnosis):
        return Action.NONE
    family = labels.family(diagnosis.label)
    if family == "hardware":
        return Action.DRAIN_NODE if diagnosis.disposition.convicts else Action.REQUEUE_EXCLUDE_NODE
    if family == "unknown" or diagnosis.label in AGAIN:
        return Action.REQUEUE
    if diagnosis.label in labels.TRANSIENT:
        # One GPU is on one node, also where nothing tells its name.
        nodes = {suspect.node for suspect in diagnosis.suspects if suspect.node or suspect.gpu}
        return Action.REQUEUE_EXCLUDE_NODE if len(nodes) == 1 else Action.REQUEUE
    return Action.NO_REQUEUE
