"""The error file of torchrun: the exception that ended one process, as JSON."""

from __future__ import annotations

import json
import re
from typing import Any

from wheeltapper.catalogue import Catalogue
from wheeltapper.evidence import Evidence, Finding, Source
from wheeltapper.inputs.model import Document, Reader, Reading
from wheeltapper.scan.finding import finding
from wheeltapper.scan.text import is_echo

_OURS = re.compile(rb"""^\s*\{\s*"message"\s*:\s*\{\s*"message"\s*:""")
_RANK = re.compile(r"(?:^|[/._-])rank[_-]?(\d+)")


def _recognises(document: Document) -> bool:
    return bool(_OURS.match(document.data[:200]))


def _content(document: Document) -> dict[str, Any] | None:
    try:
        content = json.loads(document.data)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _read(document: Document, catalogue: Catalogue) -> Reading:
    message = (_content(document) or {}).get("message")
    told = message if isinstance(message, dict) else {"message": message}
    extra = told.get("extraInfo")
    stack = extra.get("py_callstack") if isinstance(extra, dict) else None
    stamp = extra.get("timestamp") if isinstance(extra, dict) else None
    at = float(str(stamp)) if re.fullmatch(r"\d+(?:\.\d+)?", str(stamp)) else None
    rank = _RANK.search(document.name)
    findings: list[Finding] = []
    for words in [*str(stack or "").splitlines(), *str(told.get("message") or "").splitlines()]:
        if is_echo(words):
            continue
        seen = Evidence(
            Source.JOB_LOG, words[:400], at=at, file=document.name, line=1, offset=0,
            rank=int(rank[1]) if rank else None,
        )  # fmt: skip
        findings += [finding(match, seen) for match in catalogue.match(words, Source.JOB_LOG)]
    return Reading(findings=tuple({(each.signature, each.evidence.text): each for each in findings}.values()))


READER = Reader(_recognises, _read)
