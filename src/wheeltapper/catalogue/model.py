"""A signature is a rule that recognises one kind of line; a match is the rule applied to a line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from wheeltapper.evidence import Disposition, Role, Source
from wheeltapper.labels import Label


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a match says: its label and role, what it asks for, and the words for it."""

    label: Label
    role: Role
    disposition: Disposition
    summary: str


class Pattern:
    """A regular expression that is compiled when it is first asked: most are not, and compiling takes longest."""

    __slots__ = ("_compiled", "pattern")

    def __init__(self, pattern: str) -> None:
        """Take *pattern* as it is written."""
        self.pattern = pattern
        self._compiled: re.Pattern[str] | None = None

    @property
    def compiled(self) -> re.Pattern[str]:
        """The expression itself; ``re.error`` when there is none."""
        if self._compiled is None:
            self._compiled = re.compile(self.pattern)
        return self._compiled


@dataclass(frozen=True, slots=True)
class Signature:
    """A rule of the catalogue.

    A line can match only when it holds one of the literal ``anchors``; then ``pattern`` decides. ``key`` names the
    field whose value picks a row of ``rows`` in place of ``meaning`` (one table for all Xid codes). A signature
    silences those in ``instead_of`` on the same line, and a ``generic`` one gives way to every other. One that is
    ``last_words`` counts only where its log ends soon after. ``detail`` and the summaries are templates over the
    named groups of the pattern; ``origin`` says who prints such lines.
    """

    id: str
    meaning: Meaning
    sources: frozenset[Source]
    anchors: tuple[str, ...]
    pattern: Pattern
    detail: str = ""
    key: str | None = None
    rows: Mapping[str, Meaning] = field(default_factory=dict)
    instead_of: frozenset[str] = frozenset()
    generic: bool = False
    last_words: bool = False
    examples: tuple[str, ...] = ()
    near_misses: tuple[str, ...] = ()
    origin: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Every id that a match of this signature may bear: its own, and one for each row."""
        return (self.id, *(f"{self.id}.{value}" for value in self.rows))

    def match(self, text: str) -> Match | None:
        """Return what this signature says of *text*, or None."""
        found = self.pattern.compiled.search(text)
        if not found:
            return None
        named = found.groupdict("")
        fields = {name: value for name, value in named.items() if value or found[name] is not None}
        row = self.rows.get(fields.get(self.key, "")) if self.key else None
        meaning = row or self.meaning
        return Match(
            signature=f"{self.id}.{fields[self.key]}" if row and self.key else self.id,
            meaning=meaning,
            detail=self.detail.format_map(named) if self.detail else "",
            summary=meaning.summary.format_map(named),
            fields=fields,
            last_words=self.last_words,
        )


@dataclass(frozen=True, slots=True)
class Match:
    """A signature that matched a line; ``fields`` are the pattern's named groups that took part."""

    signature: str
    meaning: Meaning
    detail: str
    summary: str
    fields: dict[str, str]
    last_words: bool = False
