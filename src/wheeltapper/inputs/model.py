"""What a file that is no log says: a document with numbered lines, and what a reader makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from wheeltapper.attempt import Attempt
from wheeltapper.catalogue import Catalogue
from wheeltapper.evidence import EXCERPT_CHARS, Disposition, Evidence, Finding, Role, Source
from wheeltapper.inputs.naming import node_in_name
from wheeltapper.labels import label

if TYPE_CHECKING:
    from wheeltapper.inputs.judging.gpus import Gpu
    from wheeltapper.inputs.judging.ports import Port
    from wheeltapper.inputs.judging.recorder import Dump


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end; ``number`` counts from 1, ``offset`` is its first byte."""

    text: str
    number: int
    offset: int


@dataclass(frozen=True)
class Document:
    """A file small enough to be read whole; ``name`` is its name in findings."""

    name: str
    data: bytes

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """All lines; bytes that are no UTF-8 are replaced. A line ends at LF only, a CR before it is dropped."""
        lines = []
        offset = 0
        for number, raw in enumerate(self.data.split(b"\n"), start=1):
            lines.append(Line(raw.decode("utf-8", "replace").rstrip("\r"), number, offset))
            offset += len(raw) + 1
        return tuple(lines)

    @cached_property
    def head(self) -> str:
        """The first lines, from which a reader tells whether the document is its own."""
        return self.data[:HEAD].decode("utf-8", "replace")

    @cached_property
    def node(self) -> str | None:
        """The node that the document's name tells."""
        return node_in_name(self.name)

    def seen(self, line: Line, source: Source = Source.CHECK, **more: Any) -> Evidence:
        """Return *line* as evidence; *more* is what is known besides (node, at, gpu, rank, text)."""
        text = str(more.pop("text", line.text)).strip()[:EXCERPT_CHARS]
        more.setdefault("node", self.node)
        return Evidence(source, text, file=self.name, line=line.number, offset=line.offset, **more)


HEAD = 4096
"""Bytes from which a document's kind is told."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What a reader knows about one kind of observation; the same parts as a signature of the catalogue."""

    signature: str
    label: str
    summary: str
    role: Role = Role.ROOT
    disposition: Disposition = Disposition.NONE

    def of(self, seen: Evidence, *, detail: str = "", **fields: str) -> Finding:
        """Return the finding that this rule makes of what was *seen*."""
        return Finding(
            self.signature, label(self.label), self.role, self.disposition, seen, detail, self.summary, fields
        )


@dataclass(frozen=True, slots=True)
class Sample:
    """A counter at one moment. Counters of one ``kind``, ``device`` and node are compared over time."""

    kind: str
    device: str
    name: str
    value: int
    seen: Evidence


@dataclass(frozen=True, slots=True)
class Reading:
    """What one document says.

    ``findings`` stand on their own; ``samples``, ``gpus``, ``dumps`` and ``ports`` are judged when all documents are
    read. ``jobs`` are names under which the document knows the job that is asked about, ``places`` pods and their
    nodes.
    """

    findings: tuple[Finding, ...] = ()
    samples: tuple[Sample, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    dumps: tuple[Dump, ...] = ()
    ports: tuple[Port, ...] = ()
    attempts: tuple[Attempt, ...] = ()
    jobs: tuple[str, ...] = ()
    places: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Reader:
    """One kind of document: *recognises* looks at its first lines, *read* at all of it.

    Readers are asked in the order of ``order`` and then of their module's name; the first that recognises wins.
    """

    recognises: Callable[[Document], bool]
    read: Callable[[Document, Catalogue], Reading]
    order: int = 50
