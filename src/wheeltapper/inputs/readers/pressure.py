"""Pressure stall information: the share of time in which all tasks of a node or a cgroup stood still."""

from __future__ import annotations

import re

from wheeltapper.catalogue import Catalogue
from wheeltapper.defaults import STALLED_PERCENT
from wheeltapper.evidence import Finding
from wheeltapper.inputs.model import Document, Reader, Reading, Rule
from wheeltapper.inputs.naming import scoped

_FULL = re.compile(r"^full avg10=[\d.]+ avg60=(?P<avg60>[\d.]+) avg300=(?P<avg300>[\d.]+) total=\d+")
_LINE = re.compile(r"^(?:[\w.-]+: ?)?(?:some|full) avg10=[\d.]+ avg60=", re.MULTILINE)
_WHAT = re.compile(r"\b(?P<what>cpu|io|memory)\b(?=\.pressure\b|$|\s|\.txt|\.log)|pressure/(?P<file>cpu|io|memory)\b")

RULES = {
    "cpu": Rule("pressure.cpu", "resource/cpu_throttle", "all tasks stood still for want of processor time"),
    "io": Rule("pressure.io", "resource/shared_fs_io", "all tasks stood still waiting for files"),
}
"""Pressure on memory is no kill: the kernel says those itself."""


def _recognises(document: Document) -> bool:
    return bool(_LINE.search(document.head))


def _read(document: Document, _catalogue: Catalogue) -> Reading:
    findings: list[Finding] = []
    what = _kind(document.name)
    for line, scope in scoped(document.lines, document.node):
        if not line.text.startswith(("some ", "full ")):
            what = _kind(line.text) or what
        stalled = _FULL.match(line.text.strip())
        if stalled and what in RULES and max(float(stalled["avg60"]), float(stalled["avg300"])) >= STALLED_PERCENT:
            seen = document.seen(line, node=scope.node, at=scope.at)
            findings.append(RULES[what].of(seen, detail=f"stalled={stalled['avg60']}%"))
    return Reading(findings=tuple(findings))


def _kind(text: str) -> str:
    found = _WHAT.search(text)
    return (found["what"] or found["file"]) if found else ""


READER = Reader(_recognises, _read)
