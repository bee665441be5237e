"""Reading signatures from TOML: our own and a site's are held to the same rules, and to their own examples."""

from __future__ import annotations

import re
import sys
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wheeltapper import labels
from wheeltapper.catalogue.model import Meaning, Pattern, Signature
from wheeltapper.errors import CatalogueError
from wheeltapper.evidence import Disposition, Role, Source

if sys.version_info >= (3, 11):
    import tomllib
else:  # pragma: no cover - the same module under its older name
    import tomli as tomllib

Text = Annotated[str, Field(min_length=1)]
Anchor = Annotated[str, Field(min_length=3, pattern=r"^[ -~]+$")]
"""ASCII, because blocks are searched as bytes; shorter ones would be found in nearly every line."""


_HEADER = re.compile(r"^[ \t]*\[\[\s*signature\s*\]\]", re.MULTILINE)


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Row(_Strict):
    name: Text
    label: Text
    role: Role
    disposition: Disposition = Disposition.NONE


class _Entry(_Strict):
    """One ``[[signature]]`` of a file; the meaning of each key stands at :class:`Signature`."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9_]+(\.[a-z0-9_]+)*$")]
    label: Text
    role: Role
    disposition: Disposition = Disposition.NONE
    sources: Annotated[tuple[Source, ...], Field(min_length=1)]
    anchors: Annotated[tuple[Anchor, ...], Field(min_length=1)]
    pattern: str | None = None
    instead_of: tuple[str, ...] = ()
    generic: bool = False
    last_words: bool = False
    key: str | None = None
    rows: dict[str, _Row] = {}
    detail: str = ""
    summary: Text
    examples: Annotated[tuple[Text, ...], Field(min_length=1)]
    near_misses: Annotated[tuple[Text, ...], Field(min_length=1)]
    source: Text


def parse(text: str, name: str) -> tuple[Signature, ...]:
    """Return the signatures in the TOML *text*; *name* is the file's name in errors.

    Raises:
        CatalogueError: the text is no TOML, or an entry is wrong.
    """
    try:
        content: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CatalogueError(f"{name} is not TOML: {error}") from error
    entries = content.pop("signature", [])
    if content or not isinstance(entries, list):
        raise CatalogueError(f"{name}: a file holds [[signature]] tables and nothing else")
    lines = [text.count("\n", 0, found.start()) + 1 for found in _HEADER.finditer(text)]
    if len(lines) != len(entries):
        raise CatalogueError(f"{name}: signatures are written as [[signature]] tables, one header on a line each")
    return tuple(_signature(entry, f"{name}:{line}") for line, entry in zip(lines, entries, strict=True))


def _signature(raw: dict[str, Any], place: str) -> Signature:
    where = f"{place}: {raw['id']}" if "id" in raw else place
    try:
        entry = _Entry.model_validate(raw)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in each['loc'])}: {each['msg'].lower()}" for each in error.errors()
        )
        raise CatalogueError(f"{where}: {wrong}") from error
    try:
        signature = _build(entry)
        _prove(signature)
    except (ValueError, LookupError, re.error) as error:
        raise CatalogueError(f"{where}: {error}") from error
    return signature


def _build(entry: _Entry) -> Signature:
    anywhere = "|".join(re.escape(anchor) for anchor in entry.anchors)
    return Signature(
        id=entry.id,
        meaning=Meaning(labels.label(entry.label), entry.role, entry.disposition, entry.summary),
        sources=frozenset(entry.sources),
        anchors=entry.anchors,
        pattern=Pattern(entry.pattern or anywhere),
        detail=entry.detail,
        key=entry.key,
        rows={
            value: Meaning(labels.label(row.label), row.role, row.disposition, row.name)
            for value, row in entry.rows.items()
        },
        instead_of=frozenset(entry.instead_of),
        generic=entry.generic,
        last_words=entry.last_words,
        examples=entry.examples,
        near_misses=entry.near_misses,
        origin=entry.source,
    )


def _prove(signature: Signature) -> None:
    """Hold *signature* to its own examples; raise ``ValueError`` for one that does not behave."""
    if bool(signature.key) != bool(signature.rows):
        raise ValueError("key and rows belong together")
    if signature.key and signature.key not in signature.pattern.compiled.groupindex:
        raise ValueError(f"the pattern has no group named {signature.key!r}")
    for line in signature.examples:
        if not any(anchor in line for anchor in signature.anchors):
            raise ValueError(f"the example {line!r} holds none of the anchors")
        if signature.match(line) is None:
            raise ValueError(f"the example {line!r} does not match")
    for line in signature.near_misses:
        if any(anchor in line for anchor in signature.anchors) and signature.match(line):
            raise ValueError(f"the near miss {line!r} matches")
