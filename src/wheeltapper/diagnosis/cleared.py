"""What did not happen: counters of the job's own cgroup show that it lacked no processor time and waited for no file.

It clears what a check says of the whole machine, and it is said where ranks waited for one another: what makes a rank
late is then looked for elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wheeltapper.diagnosis.model import Rejected
from wheeltapper.evidence import Finding, Role
from wheeltapper.labels import Label

CLEARED = "contention.cleared."
"""How the signatures begin that say that there was none of it."""

WAITED = "network/nccl_timeout"
"""The label of a wait for ranks that came late or never."""


def by_place(told: Sequence[Finding]) -> Mapping[tuple[str | None, Label], Finding]:
    """Return, for a node and a label, the finding among *told* that clears it there."""
    return {(each.evidence.node, each.label): each for each in told if each.signature.startswith(CLEARED)}


def as_rejected(told: Sequence[Finding]) -> list[Rejected]:
    """Return, where ranks waited, one rejected answer for each label that was cleared and is alleged by nobody."""
    if not any(each.label == WAITED for each in told):
        return []
    alleged = {each.label for each in told if each.role in {Role.ROOT, Role.SYMPTOM}}
    first: dict[Label, Finding] = {}
    nodes: dict[Label, set[str | None]] = {}
    for (node, label), each in by_place(told).items():
        first.setdefault(label, each)
        nodes.setdefault(label, set()).add(node)
    return [
        Rejected(label, each.evidence.where, f"{each.evidence.text}{_and_others(len(nodes[label]))}")
        for label, each in first.items()
        if label not in alleged
    ]


def _and_others(nodes: int) -> str:
    return f" (likewise on {nodes - 1} other node{'s' if nodes > 2 else ''})" if nodes > 1 else ""
