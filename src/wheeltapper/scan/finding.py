"""From a match of the catalogue to a finding, and how many findings of one kind are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from wheeltapper.catalogue import Match
from wheeltapper.evidence import EXCERPT_CHARS, Evidence, Finding, Source, pci_address

T = TypeVar("T")

KEEP_FIRST = 4
"""Findings of one kind (a signature and a rank) that are kept from the start of a burst; its last one is kept too."""

CROWD = 4096
"""Kinds from which of each one finding and its last are kept: a storm says one thing."""

KINDS_MAX = 100_000
"""Kinds that are told apart: six signatures of each rank of a job of 16,384; beyond it, one."""


def excerpt(text: str) -> str:
    """Return *text* as evidence keeps it."""
    return text.strip()[:EXCERPT_CHARS]


def finding(match: Match, evidence: Evidence) -> Finding:
    """Return the finding that *match* makes of *evidence*."""
    meaning = match.meaning
    return Finding(
        signature=match.signature,
        label=meaning.label,
        role=meaning.role,
        disposition=meaning.disposition,
        evidence=evidence,
        detail=match.detail,
        summary=match.summary,
        fields=match.fields,
    )


def gpu_of(match: Match) -> str | None:
    """Return the GPU that *match* names, as a PCI address."""
    return pci_address(match.fields["pci"]) if "pci" in match.fields else None


def node_of(match: Match, source: Source) -> str | None:
    """Return the node that a line of a log names for itself or for the one that failed; the kernel names none."""
    if source is Source.KERNEL:
        return None
    named = match.fields.get("node") or match.fields.get("failed") or match.fields.get("host")
    return named.partition(".")[0] if named else None


Kind = tuple[str, int | None, str | None]
"""A signature, the rank that speaks, and the rank that it speaks of."""


def bounded(items: Iterable[T], kind_of: Callable[[T], Kind], place_of: Callable[[T], int]) -> Iterator[T]:
    """Yield *items* without the middle of a burst: the first few of a kind at once, its last one at the end.

    The last one is the one whose *place_of* is the highest, wherever it comes.
    """
    seen: dict[Kind, int] = {}
    last: dict[Kind, T] = {}
    for each in items:
        kind = kind_of(each)
        if kind not in seen and len(seen) >= KINDS_MAX:
            kind = (kind[0], None, None)
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= (KEEP_FIRST if len(seen) <= CROWD else 1):
            yield each
        elif kind not in last or place_of(last[kind]) <= place_of(each):
            last[kind] = each
    yield from last.values()
