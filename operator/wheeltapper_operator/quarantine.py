"""What is to be done about one node: pure, from what the node is, what its agent says, and what the budget allows.

Level-triggered: the same answer follows from the same cluster, however often it is asked and whoever asks.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from pydantic import ValidationError

from wheeltapper import codec
from wheeltapper.config import Mode, PolicySection
from wheeltapper.evidence import Finding
from wheeltapper.ledger.model import Outcome, Quarantine
from wheeltapper.policy import release
from wheeltapper.policy.budget import Standing, refused
from wheeltapper.policy.order import last_failed_first
from wheeltapper.policy.reason import format_reason
from wheeltapper.wire import Health
from wheeltapper_operator.objects import Node, NodeHealth

HISTORY_MAX = 20
"""Entries kept on a node: enough to tell a repeat offender, and far from the 256 KiB that annotations may take."""

PUT_BACK = "a person put it back to work"


class Step(str, Enum):
    """What is done about a node."""

    NOTHING = "nothing"
    QUARANTINE = "quarantine"
    OBSERVE = "observe"
    BLOCKED = "blocked"
    RELEASE = "release"
    SETTLE = "settle"
    """A person undid what we did: the rest of it goes too, and the same evidence takes the node out no more."""
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Plan:
    """The step, a sentence on it, and our records on the node after it (``out`` is None when it is not out)."""

    step: Step
    why: str = ""
    out: Out | None = None
    history: tuple[Quarantine, ...] = ()
    finding: Finding | None = None


@dataclass(frozen=True, slots=True)
class Act:
    """What was done about a node, why, and when (Unix seconds)."""

    step: Step
    why: str
    at: float


@dataclass(frozen=True, slots=True)
class Out:
    """Our own quarantine of a node: for what, and whether the cordon is ours too."""

    record: Quarantine
    cordoned: bool


def read_out(text: str) -> Out | None:
    """Return the record in a node's annotation; None when there is none, or none that is ours."""
    try:
        return codec.loads(Out, text) if text else None
    except ValidationError:
        return None


def read_history(text: str) -> tuple[Quarantine, ...]:
    """Return the history in a node's annotation; what is not understood is no history."""
    try:
        return tuple(codec.load(Quarantine, each) for each in json.loads(text)) if text else ()
    except (ValueError, TypeError, ValidationError):
        return ()


def last_act(node: Node) -> Act | None:
    """Return what was last done about *node*, by our own records on it; None when nothing ever was."""
    out = read_out(node.quarantine)
    if out is not None:
        return Act(Step.QUARANTINE, out.record.reason, out.record.at)
    last = next(reversed(read_history(node.history)), None)
    steps = {Outcome.RELEASED: Step.RELEASE, Outcome.UNDONE: Step.SETTLE}
    return Act(steps[last.outcome], last.note, last.at) if last is not None and last.outcome in steps else None


def failed_nodes(nodes: Iterable[Node], most: int) -> list[str]:
    """Return at most *most* nodes in service that were out before, the last first, however long ago."""
    back = ((node.name, last_act(node)) for node in nodes if node.history and not node.quarantine)
    return last_failed_first({name: act.at for name, act in back if act is not None}, most)


def plan(node: Node, health: NodeHealth | None, standing: Standing, policy: PolicySection, now: float) -> Plan:
    """Return what is to be done about *node* at *now* (Unix seconds)."""
    out, history = read_out(node.quarantine), read_history(node.history)
    if out is not None:
        return _of_one_that_is_out(node, out, history, health, policy, now)
    faults = _unsettled(node, history, health)
    if not faults:
        return Plan(Step.NOTHING)
    reason = format_reason(faults[0], None, now)
    if policy.mode is Mode.OBSERVE:
        return Plan(Step.OBSERVE, f"observe mode; it would be quarantined: {reason}", finding=faults[0])
    refusal = refused(standing, policy.budget)
    if refusal:
        return Plan(Step.BLOCKED, f"the budget forbids it: {refusal}; {reason}", finding=faults[0])
    return _take_out(node, faults, history, policy, now)


def _unsettled(node: Node, history: Sequence[Quarantine], health: NodeHealth | None) -> list[Finding]:
    """Return the faults that convict *node* now: of this boot as far as it is known, and not settled by a person."""
    if health is None:
        return []
    settled = release.settled(history)
    return [
        each
        for each in health.findings
        if each.convicts
        and each.evidence.node in {node.name, None}
        and each.key not in settled
        and (not node.boot_id or each.evidence.boot_id in {node.boot_id, None})
    ]


def _take_out(
    node: Node, faults: list[Finding], history: tuple[Quarantine, ...], policy: PolicySection, now: float
) -> Plan:
    first = faults[0]
    times = 1 + release.times_out(history, now, policy)
    reason = format_reason(first, None, now) + release.repeats(times, policy)
    record = Quarantine(
        node.name,
        first.key,
        first.label,
        first.detail,
        reason,
        None,
        now,
        Outcome.DONE,
        disposition=release.strictest(faults),
        boot_id=first.evidence.boot_id or "",
    )
    kept = (*history, record)[-HISTORY_MAX:]
    return Plan(Step.QUARANTINE, reason, Out(record, cordoned=not node.cordoned), kept, first)


def _of_one_that_is_out(
    node: Node,
    out: Out,
    history: tuple[Quarantine, ...],
    health: NodeHealth | None,
    policy: PolicySection,
    now: float,
) -> Plan:
    if node.taint is None or (out.cordoned and not node.cordoned):
        undone = replace(out.record, at=now, outcome=Outcome.UNDONE, note=PUT_BACK)
        return Plan(Step.SETTLE, PUT_BACK, history=(*history, undone)[-HISTORY_MAX:])
    following = release.next_step(
        out.record, release.times_out(history, out.record.at, policy), _said(node, out, health, now), policy
    )
    if following.step is not release.Step.RELEASE:
        return Plan(Step.WAIT, following.why, out, history)
    released = replace(out.record, at=now, outcome=Outcome.RELEASED, note=following.why)
    return Plan(Step.RELEASE, following.why, history=(*history, released)[-HISTORY_MAX:])


def _said(node: Node, out: Out, health: NodeHealth | None, now: float) -> Health | None:
    """Return what the agent says, unless it is older than the quarantine or of another boot than the kubelet's."""
    if health is None or (node.boot_id and health.boot_id != node.boot_id):
        return None
    return Health(node.name, health.boot_id, health.state, max(0.0, now - max(health.since, out.record.at)), ())
