"""One timeline over ranks, nodes and scheduler, for people who want to see what happened and not only why.

Clocks of nodes differ. Events whose clocks are not the same and whose times are closer than ``SKEW_S`` are shown as
happening together: their order is not known, and the diagnosis does not rest on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from wheeltapper.diagnosis.depth import story
from wheeltapper.diagnosis.model import Diagnosis
from wheeltapper.evidence import Evidence, Finding, Role

SKEW_S = 1.0
"""Seconds by which clocks that NTP keeps may differ under load; a minute is a broken clock and shows in the order."""

BURST_S = 60.0
"""Seconds within which the same words of many ranks and nodes are one event."""


@dataclass(frozen=True, slots=True)
class Event:
    """One event: ``at`` is its first time in seconds since the epoch, None without one.

    ``part`` is its place in the answer (root, witness, symptom), empty when it has none. ``together`` is True when it
    cannot be told whether it came before or after the event above it.
    """

    at: float | None
    label: str
    role: Role
    text: str
    where: str
    clock: str
    count: int = 1
    ranks: tuple[int, ...] = ()
    nodes: tuple[str, ...] = ()
    part: str = ""
    together: bool = False


def timeline(findings: Iterable[Finding], answer: Diagnosis) -> tuple[Event, ...]:
    """Return all *findings* but the benign in the order of the story, with those of the *answer* marked."""
    bursts: list[list[Finding]] = []
    newest: dict[str, list[Finding]] = {}
    for each in story([each for each in findings if each.role is not Role.BENIGN]):
        burst = newest.get(each.signature)
        if burst and _is_one_event(burst[0], each):
            burst.append(each)
        else:
            newest[each.signature] = burst = [each]
            bursts.append(burst)
    events: list[Event] = []
    for burst in bursts:
        events.append(_event(burst, answer, events[-1] if events else None))
    return tuple(events)


def _is_one_event(first: Finding, other: Finding) -> bool:
    early, late = first.evidence.at, other.evidence.at
    return early == late if early is None or late is None else late - early <= BURST_S


def _event(burst: Sequence[Finding], answer: Diagnosis, above: Event | None) -> Event:
    first = burst[0]
    seen = first.evidence
    clock = _clock(seen)
    close = above is not None and above.at is not None and seen.at is not None and seen.at - above.at < SKEW_S
    return Event(
        at=seen.at,
        label=f"{first.label} {first.detail}".strip(),
        role=first.role,
        text=seen.text,
        where=seen.where,
        clock=clock,
        count=len(burst),
        ranks=tuple(sorted({each.evidence.rank for each in burst if each.evidence.rank is not None})),
        nodes=tuple(sorted({each.evidence.node for each in burst if each.evidence.node})),
        part=_part(burst, answer),
        together=bool(close and above is not None and above.clock != clock),
    )


def _clock(seen: Evidence) -> str:
    """Return whose clock stamped the evidence: the node's, or that of whoever wrote the file."""
    return seen.node or seen.file or seen.source.value


def _part(burst: Sequence[Finding], answer: Diagnosis) -> str:
    places = {_place(each.evidence) for each in burst}
    for number, link in enumerate(answer.chain):
        if _place(link.evidence) in places:
            return "root" if number == 0 else "symptom" if link.label == answer.symptom else "witness"
    return ""


def _place(seen: Evidence) -> tuple[object, ...]:
    return seen.file, seen.line, seen.sequence, seen.node, seen.text
