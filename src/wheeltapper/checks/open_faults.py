"""Which faults of this boot still stand: what a verdict rests on. Pure; costs one pass over the findings."""

from __future__ import annotations

from collections.abc import Iterable

from wheeltapper.evidence import Finding
from wheeltapper.recovery import GRAVITY, heeded

NEW_AFTER_S = 300.0
"""Seconds of quiet after which the same fault on the same GPU counts as a new one. A burst lasts seconds to minutes,
and its lines are one piece of evidence: a person who puts the node back has judged all of them."""


def open_faults(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the faults among *findings*, all of one boot, that still stand: one per GPU, the gravest first.

    For a GPU it is the gravest, and among equals the one that began the newest burst. Faults that belong to no GPU
    are told apart by their label. What the driver has cleared since (Xid 154 ``-> 0x0``) stands no more.
    """
    standing: dict[tuple[str | None, str], Finding] = {}
    latest: dict[tuple[str | None, str], float] = {}
    for each in heeded(findings):
        if not each.convicts:
            continue
        seen = each.evidence
        place = (seen.node, seen.gpu or each.label)
        known = standing.get(place)
        at = seen.at or 0.0
        burst_is_over = at - latest.get(place, at) > NEW_AFTER_S
        if known is None or _gravity(each) > _gravity(known) or (burst_is_over and _gravity(each) == _gravity(known)):
            standing[place] = each
        latest[place] = at
    return tuple(sorted(standing.values(), key=lambda each: (-_gravity(each), each.evidence.at or 0.0)))


def _gravity(finding: Finding) -> int:
    return GRAVITY.index(finding.disposition)
