"""The shape of a diagnosis: one answer, the chain that leads to it, and what was rejected on the way."""

from __future__ import annotations

from dataclasses import dataclass

from wheeltapper import labels
from wheeltapper.evidence import Disposition, Finding
from wheeltapper.labels import Label


@dataclass(frozen=True, slots=True)
class Suspect:
    """A node, GPU or rank that may be to blame, and why."""

    node: str | None = None
    gpu: str | None = None
    rank: int | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Rejected:
    """An answer that was considered and turned down; ``where`` is its evidence as ``file:line``."""

    label: Label
    where: str
    reason: str


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why one attempt stopped.

    ``confirmed`` is True only for a hardware root with positive evidence from the node itself; ``confidence``
    is from 0 to 1; ``chain`` runs from the root to the symptom, or holds the only sign of an end that nothing
    explains; ``sentence`` is the answer for a person.
    """

    label: Label = labels.UNKNOWN
    detail: str = ""
    symptom: Label | None = None
    disposition: Disposition = Disposition.NONE
    confidence: float = 0.0
    confirmed: bool = False
    chain: tuple[Finding, ...] = ()
    suspects: tuple[Suspect, ...] = ()
    rejected: tuple[Rejected, ...] = ()
    sentence: str = ""

    @property
    def name(self) -> str:
        """The label with its detail."""
        return f"{self.label} {self.detail}".strip()

    @property
    def root(self) -> Finding | None:
        """The finding that the answer rests on; None when nothing in the evidence speaks of an end."""
        return self.chain[0] if self.chain else None
