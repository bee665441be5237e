"""``ibstat``: the state of every InfiniBand port of a node at one moment."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from wheeltapper.catalogue import Catalogue
from wheeltapper.evidence import Finding
from wheeltapper.inputs.model import Document, Line, Reader, Reading, Rule
from wheeltapper.inputs.naming import Scope, scoped

DOWN = Rule("ibstat.down", "network/link_down", "a port looks for its other end while the node's others are up")

_CA = re.compile(r"^CA '(?P<name>[\w.-]+)'")
_PAIR = re.compile(r"^\s+(?P<key>State|Physical state|Link layer): (?P<value>.+)$")


@dataclass
class _Port:
    name: str
    scope: Scope
    values: dict[str, tuple[str, Line]] = field(default_factory=dict)

    def text(self, key: str) -> str:
        return self.values[key][0] if key in self.values else ""


def _recognises(document: Document) -> bool:
    return bool(_CA.search(document.head)) and "Physical state:" in document.head


def _read(document: Document, _catalogue: Catalogue) -> Reading:
    ports: list[_Port] = []
    for line, scope in scoped(document.lines, document.node):
        if found := _CA.match(line.text):
            ports.append(_Port(found["name"], scope))
        elif ports and (pair := _PAIR.match(line.text)):
            ports[-1].values[pair["key"]] = pair["value"].strip(), line
    return Reading(findings=tuple(_down(document, port) for port in ports if _is_lost(port, ports)))


def _is_lost(port: _Port, ports: list[_Port]) -> bool:
    """True for a port that is polling; one that a person disabled, or a spare among others as idle, is not lost."""
    alike = [each for each in ports if each.scope.node == port.scope.node and each is not port]
    if port.text("State") != "Down" or port.text("Physical state") != "Polling":
        return False
    up = [
        each for each in alike if each.text("State") == "Active" and each.text("Link layer") == port.text("Link layer")
    ]
    polling = [each for each in alike if each.text("Physical state") == "Polling"]
    return len(up) > 1 and not polling


def _down(document: Document, port: _Port) -> Finding:
    line = port.values["Physical state"][1]
    # Looked at after the job, mostly: a port that is down was so before, and has no moment.
    return DOWN.of(document.seen(line, node=port.scope.node), detail=f"port={port.name}")


READER = Reader(_recognises, _read)
