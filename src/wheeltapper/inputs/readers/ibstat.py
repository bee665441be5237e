"""``ibstat``: the state of every InfiniBand port of a node at one moment."""

from __future__ import annotations

import re

from wheeltapper.catalogue import Catalogue
from wheeltapper.inputs.judging.ports import Port
from wheeltapper.inputs.model import Document, Reader, Reading
from wheeltapper.inputs.naming import scoped

_CA = re.compile(r"^CA '(?P<name>[\w.-]+)'")
_PAIR = re.compile(r"^\s+(?P<key>State|Physical state|Link layer): (?P<value>.+)$")


def _recognises(document: Document) -> bool:
    return bool(_CA.search(document.head)) and "Physical state:" in document.head


def _read(document: Document, _catalogue: Catalogue) -> Reading:
    ports: list[Port] = []
    for line, scope in scoped(document.lines, document.node):
        if found := _CA.match(line.text):
            ports.append(Port(found["name"], scope.node, document))
        elif ports and (pair := _PAIR.match(line.text)):
            ports[-1].values[pair["key"]] = pair["value"].strip(), line
    return Reading(ports=tuple(ports))


READER = Reader(_recognises, _read)
