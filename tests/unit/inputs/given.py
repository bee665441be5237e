"""Documents as people hand them over, and what the readers and judges make of them."""

from __future__ import annotations

import io
from datetime import datetime, timezone

from tests.unit.evidence import CATALOGUE
from wheeltapper.evidence import Finding
from wheeltapper.inputs import Case, Reading, conclude
from wheeltapper.scan.inputs import read_stream


def reading(name: str, text: str | bytes) -> Reading:
    data = text.encode() if isinstance(text, str) else text
    return read_stream(io.BytesIO(data), name, CATALOGUE)


def case(**files: str | bytes) -> Case:
    """The case of *files*; in a keyword ``__`` stands for a dot and ``___`` for a slash."""
    named = {name.replace("___", "/").replace("__", "."): text for name, text in files.items()}
    return of(named)


def of(files: dict[str, str | bytes]) -> Case:
    return conclude([reading(name, text) for name, text in files.items()], list(files))


def told(found: Case) -> list[tuple[str, str | None, str | None, int | None]]:
    """Label, node, file and line of each finding, in their order."""
    return [(each.label, each.evidence.node, each.evidence.file, each.evidence.line) for each in found.findings]


def labels(found: Case) -> list[str]:
    return [each.label for each in found.findings]


def only(found: Case) -> Finding:
    (finding,) = found.findings
    return finding


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()
