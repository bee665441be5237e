"""The table that ``kubectl get events`` prints. Its times are ages, so only its order tells what came first."""

from __future__ import annotations

import re
from dataclasses import replace

from wheeltapper.catalogue import Catalogue
from wheeltapper.evidence import Evidence, Finding, Role, Source
from wheeltapper.inputs.judging.kubernetes import rule_for
from wheeltapper.inputs.model import Document, Reader, Reading
from wheeltapper.scan.finding import finding

_HEAD = re.compile(
    r"^\s*(?:NAMESPACE\s+)?LAST SEEN\s+(?:FIRST SEEN\s+)?(?:COUNT\s+)?TYPE\s+REASON\s+OBJECT\s+", re.MULTILINE
)
_ROW = re.compile(r"\b(?:Normal|Warning)\s+(?P<reason>\S+)\s+(?P<object>[\w.-]+/\S+)\s+(?P<message>.*)$")
_JOB = re.compile(r"^(?:pytorchjob|mpijob|tfjob|jobset|trainjob|rayjob)(?:\.[\w.-]+)?/(?P<name>.+)$")


def _recognises(document: Document) -> bool:
    return bool(_HEAD.search(document.head))


def _read(document: Document, catalogue: Catalogue) -> Reading:
    findings: list[Finding] = []
    jobs: list[str] = []
    for line in document.lines:
        row = _ROW.search(line.text)
        if not row:
            continue
        subject = row["object"].lower()
        if owner := _JOB.match(subject):
            jobs.append(owner["name"])
        kind, _, name = subject.partition("/")
        seen = document.seen(line, Source.SCHEDULER, node=name if kind == "node" else None)
        if rule := rule_for(row["reason"], row["message"]):
            findings.append(rule.of(seen, object=subject))
        else:
            findings += _echoes(line.text, seen, subject, catalogue)
    return Reading(findings=tuple(findings), jobs=tuple(dict.fromkeys(jobs)))


def _echoes(text: str, seen: Evidence, subject: str, catalogue: Catalogue) -> list[Finding]:
    """Return what the catalogue knows of an event that is no cause by itself."""
    found = [finding(match, seen) for match in catalogue.match(text, Source.SCHEDULER)]
    return [replace(each, fields={**each.fields, "object": subject}) for each in found if each.role is not Role.ROOT]


READER = Reader(_recognises, _read)
