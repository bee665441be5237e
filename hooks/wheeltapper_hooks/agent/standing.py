"""Which findings of the checks stand: what began, what goes on, what is over. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from wheeltapper.evidence import Finding, Role
from wheeltapper.verdict import Verdict
from wheeltapper_hooks.agent.judge import settling_key

_NUMBER = re.compile(r"=\d+(?:[./]\d+)*[%A-Za-z]*(?=\s|$)")


@dataclass(frozen=True, slots=True)
class Change:
    """What a look at the node changed: the findings that stand now, and of those before which are over."""

    standing: tuple[Finding, ...]
    began: tuple[Finding, ...] = ()
    ended: tuple[Finding, ...] = ()


def place(finding: Finding) -> str:
    """Return what makes *finding* the same one at the next look.

    The numbers of a warning may change while it stands. Those of a fault may not: a person who put the node back with
    three errors has not judged the fourth.
    """
    if finding.convicts:
        return settling_key(finding)
    return f"{finding.key}:{finding.label}:{_NUMBER.sub('=', finding.detail)}"


def as_witness(finding: Finding, at: float) -> Finding:
    """Return *finding* as what the node was like at *at* (Unix seconds), and as no cause of anything."""
    return replace(finding, role=Role.CONFIRM, evidence=replace(finding.evidence, at=at))


def places(verdict: Verdict) -> list[str]:
    """Return which findings *verdict* rests on, whatever their numbers are now."""
    return [place(each) for each in verdict.findings]


def compared(before: Sequence[Finding], found: Sequence[Finding]) -> Change:
    """Return what changed from *before*; what goes on keeps the time at which it began, with its newest words."""
    known = {place(each): each for each in before}
    standing: dict[str, Finding] = {}
    began = []
    for each in found:
        where = place(each)
        if where in known:
            standing[where] = replace(each, evidence=replace(each.evidence, at=known[where].evidence.at))
        elif where not in standing:
            standing[where] = each
            began.append(each)
    ended = tuple(each for where, each in known.items() if where not in standing)
    return Change(tuple(standing.values()), tuple(began), ended)
