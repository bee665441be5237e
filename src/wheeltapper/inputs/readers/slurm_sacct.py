"""What ``sacct`` prints, as a table or parsable: the attempts of a job and how Slurm counts their ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from wheeltapper.attempt import Attempt, Ending
from wheeltapper.catalogue import Catalogue
from wheeltapper.evidence import Finding, Source
from wheeltapper.inputs.judging.slurm import ENDINGS, ending, exact_time, nodes
from wheeltapper.inputs.model import Document, Line, Reader, Reading

_HEAD = re.compile(r"^\s*JobID(?:Raw)?\b.*\bState\b", re.MULTILINE)
_RULE = re.compile(r"^\s*-{3,}(?:\s+-{2,})+\s*$")
_BY = re.compile(r"CANCELLED by (?P<uid>\d+)")
_JOB = re.compile(r"^\d+(?:_\d+)?(?:\+\d+)?$")


@dataclass(frozen=True, slots=True)
class _Row:
    line: Line
    cells: dict[str, str]


def _recognises(document: Document) -> bool:
    return bool(_HEAD.search(document.head))


def _read(document: Document, _catalogue: Catalogue) -> Reading:
    rows = [row for row in _rows(document) if _JOB.match(row.cells.get("JobID", ""))]
    attempts = []
    findings: list[Finding] = []
    for row in rows:
        attempt = _attempt(row.cells)
        if attempt is None:
            continue
        attempts.append(attempt)
        # A record is written when all is over: it has no moment of its own, and the log's line comes before it.
        if rule := ENDINGS.get(attempt.ending):
            seen = document.seen(row.line, Source.SCHEDULER, node=attempt.failed_node)
            by = _BY.match(row.cells.get("State", ""))
            findings.append(rule.of(seen, job=attempt.job, **({"by": by["uid"]} if by else {})))
    return Reading(
        findings=tuple(findings), attempts=tuple(attempts), jobs=tuple({each.job: None for each in attempts})
    )


def _rows(document: Document) -> Iterator[_Row]:
    names: list[str] = []
    spans: list[tuple[int, int]] = []
    for number, line in enumerate(document.lines):
        if _HEAD.match(line.text):
            names = [name.strip() for name in line.text.split("|")] if "|" in line.text else line.text.split()
            following = document.lines[number + 1].text if number + 1 < len(document.lines) else ""
            spans = [found.span() for found in re.finditer(r"-+", following)] if _RULE.match(following) else []
        elif names and line.text.strip() and not _RULE.match(line.text):
            yield _Row(line, dict(zip(names, _cells(line.text, spans), strict=False)))


def _cells(text: str, spans: list[tuple[int, int]]) -> list[str]:
    if "|" in text:
        return [cell.strip() for cell in text.split("|")]
    if spans:
        return [text[start:end].strip() for start, end in spans]
    return text.split()


def _attempt(cells: dict[str, str]) -> Attempt | None:
    state = cells.get("State", "")
    how = ending(state)
    if how is None:
        return None
    code, _, signal = cells.get("ExitCode", "").partition(":")
    failed = cells.get("FailedNode", "")
    start, end = cells.get("Start", ""), cells.get("End", "")
    return Attempt(
        key=f"{cells['JobID']}@{start}",
        job=cells["JobID"],
        nodes=nodes(cells.get("NodeList", "")),
        ending=how,
        exit_code=int(code) if code.isdigit() else 0,
        signal=int(signal) if signal.isdigit() else 0,
        reason=cells.get("Reason", ""),
        failed_node=failed if failed not in {"", "None assigned"} and how is Ending.NODE_FAIL else None,
        name=cells.get("JobName", ""),
        start=exact_time(start),
        end=exact_time(end),
    )


READER = Reader(_recognises, _read)
