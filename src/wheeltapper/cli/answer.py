"""The answer of ``wheeltapper diagnose`` in its two forms: JSON for programs, text for people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wheeltapper.diagnosis.advice import Action
    from wheeltapper.diagnosis.model import Diagnosis
    from wheeltapper.diagnosis.timeline import Event

TEXT_CHARS = 160
"""Characters of a line that are shown: a terminal is about as wide, and the line can be looked up."""

NODES_SHOWN = 4
"""Nodes of a burst that are named."""


def as_record(answer: Diagnosis, action: Action, events: Sequence[Event] = ()) -> dict[str, Any]:
    """Return *answer* as JSON values: the short answer first, the whole diagnosis after it, then the timeline."""
    from wheeltapper import codec
    from wheeltapper.diagnosis.advice import nothing_happened

    root = answer.root
    cause = {"file": root.evidence.file, "line": root.evidence.line} if root else None
    record = {
        "label": "none/none" if nothing_happened(answer) else answer.label,
        "action": action.value,
        "symptom": answer.symptom,
        "cause": cause,
        "diagnosis": codec.dump(answer),
    }
    if events:
        record["timeline"] = [codec.dump(event) for event in events]
    return record


def as_text(answer: Diagnosis, action: Action, events: Sequence[Event] = ()) -> str:
    """Return *answer* as a person reads it: what, why, on which lines, what else was considered, what to do."""
    from wheeltapper.diagnosis.advice import nothing_happened

    name = "none/none" if nothing_happened(answer) else f"{answer.label} {answer.detail}".strip()
    lines = [name, f"  {answer.sentence}"]
    if answer.chain:
        lines += ["", "Evidence, from the root to the symptom:"]
        lines += [f"  {each.evidence.where}: {each.evidence.text[:TEXT_CHARS]}" for each in answer.chain]
    if answer.suspects:
        lines += ["", "Suspects:"]
        lines += [f"  {_named(each.node, each.gpu, each.rank)}: {each.reason}" for each in answer.suspects]
    if answer.rejected:
        lines += ["", "Rejected:"]
        lines += [f"  {each.label} ({each.where}): {each.reason}" for each in answer.rejected]
    if events:
        lines += ["", *_timeline(events)]
    how_sure = "confirmed by the node" if answer.confirmed else f"confidence {answer.confidence:.1f}"
    lines += ["", f"Suggested action: {action.value} ({how_sure})"]
    return "\n".join(lines)


def _named(node: str | None, gpu: str | None, rank: int | None) -> str:
    parts = [node, f"GPU {gpu}" if gpu else None, f"rank {rank}" if rank is not None else None]
    return " ".join(part for part in parts if part)


def _timeline(events: Sequence[Event]) -> list[str]:
    """Return *events* as lines. Times count from the first one; ~ stands where two clocks leave the order open."""
    first = next((event.at for event in events if event.at is not None), None)
    began = f", from {datetime.fromtimestamp(first, timezone.utc):%Y-%m-%d %H:%M:%S} UTC" if first is not None else ""
    lines = [f"Timeline{began}:"]
    for event in events:
        since = _since(event.at - first) if event.at is not None and first is not None else "no time"
        mark = "~" if event.together else " "
        part = f" [{event.part}]" if event.part else ""
        lines.append(f"  {mark}{since:>10}  {event.label} ({event.role.value}){part}{_speakers(event)}")
        lines.append(f"  {'':12} {event.where}: {event.text[:TEXT_CHARS]}")
    return lines


def _since(seconds: float) -> str:
    minutes, rest = divmod(max(0.0, seconds), 60)
    hours, minutes = divmod(int(minutes), 60)
    return f"+{hours}:{minutes:02}:{rest:04.1f}"


def _speakers(event: Event) -> str:
    """Return who said it: ranks folded into ranges, nodes by name as far as they fit."""
    from ClusterShell.RangeSet import RangeSet

    parts = [f"{event.count} times"] if event.count > 1 else []
    if event.ranks:
        parts.append(f"rank {RangeSet.fromlist([str(rank) for rank in event.ranks])}")
    if event.nodes:
        shown = ", ".join(event.nodes[:NODES_SHOWN])
        parts.append(shown + (f" and {len(event.nodes) - NODES_SHOWN} more" if len(event.nodes) > NODES_SHOWN else ""))
    return f": {', '.join(parts)}" if parts else ""
