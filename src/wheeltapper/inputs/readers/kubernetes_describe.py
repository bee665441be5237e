"""What ``kubectl describe`` prints of pods, nodes and jobs: states with reasons, and the events below them."""

from __future__ import annotations

import re

from wheeltapper.catalogue import Catalogue
from wheeltapper.evidence import Finding, Source
from wheeltapper.inputs.judging.kubernetes import EXITED, rule_for
from wheeltapper.inputs.model import Document, Line, Reader, Reading

_OURS = re.compile(
    r"^Name: {2,}\S+\n(?:.*\n){0,3}(?:Namespace|Roles|Priority|Labels): {2,}"
    r"|\A(?:[\w.-]+\n)?(?: *[A-Za-z][\w -]*:.*\n){0,15}? *(?:Last )?State: +(?:Terminated|Waiting) *\n +Reason: +",
    re.MULTILINE,
)
"""A whole description, or a part of one that begins with a container."""
_PAIR = re.compile(r"^(?P<indent> *)(?P<key>[A-Z][\w -]*): {1,}(?P<value>\S.*)$")
_NODE = re.compile(r"^Node: +(?P<node>[\w.-]+)(?:/|$)")
_FAILED = re.compile(r"^ +Exit Code: +[1-9]\d*\s*$")
_EVENT = re.compile(
    r"^  (?:Normal|Warning) +(?P<reason>\S+) +(?P<age>\S+(?: \(.*?\))?) +(?P<source>\S+) +(?P<message>.*)$"
)


def _recognises(document: Document) -> bool:
    return bool(_OURS.search(document.head))


def _read(document: Document, _catalogue: Catalogue) -> Reading:
    findings: list[Finding] = []
    exits: list[Finding] = []
    node: str | None = None
    for number, line in enumerate(document.lines):
        if found := _NODE.match(line.text):
            node = found["node"]
        said = _said(document, number)
        rule = rule_for(*said) if said else None
        if rule:
            findings.append(rule.of(document.seen(line, Source.SCHEDULER, node=node)))
        elif _FAILED.match(line.text):
            exits.append(EXITED.of(document.seen(line, Source.SCHEDULER, node=node)))
    return Reading(findings=tuple(findings or exits))


def _said(document: Document, number: int) -> tuple[str, str] | None:
    """Return reason and message that the line with index *number* tells; a message may stand on the next line."""
    line = document.lines[number]
    if event := _EVENT.match(line.text):
        return event["reason"], event["message"]
    pair = _PAIR.match(line.text)
    if not pair or pair["key"] != "Reason":
        return None
    following = document.lines[number + 1] if number + 1 < len(document.lines) else Line("", 0, 0)
    more = _PAIR.match(following.text)
    return pair["value"].strip(), more["value"] if more and more["key"] == "Message" else ""


READER = Reader(_recognises, _read)
