"""The log of NVIDIA's device plugin for Kubernetes, which watches the Xids of its node and names GPUs by UUID."""

from __future__ import annotations

import re
from dataclasses import replace

from wheeltapper.catalogue import Catalogue
from wheeltapper.evidence import Finding, Source
from wheeltapper.inputs.model import Document, Reader, Reading
from wheeltapper.inputs.naming import scoped
from wheeltapper.scan.finding import finding

_OURS = re.compile(r"GRPC server for 'nvidia\.com/|XidCriticalError: Xid=\d+")
_XID = re.compile(r"XidCriticalError: Xid=(?P<code>\d+) on Device=(?P<uuid>GPU-[\w-]+|MIG-[\w/-]+)")

AS_KERNEL = "NVRM: Xid (PCI:0000:00:00): {code}, "
"""The same code as the kernel says it, so that the catalogue's one table of codes decides what it means."""


def _recognises(document: Document) -> bool:
    return bool(_OURS.search(document.head))


def _read(document: Document, catalogue: Catalogue) -> Reading:
    findings: list[Finding] = []
    for line, scope in scoped(document.lines, document.node):
        if not (found := _XID.search(line.text)):
            continue
        seen = document.seen(line, Source.CHECK, node=scope.node, at=scope.at, gpu_uuid=found["uuid"])
        for match in catalogue.match(AS_KERNEL.format(code=found["code"]), Source.KERNEL):
            told = finding(match, seen)
            findings.append(replace(told, fields={"uuid": found["uuid"]}))
    return Reading(findings=tuple(findings))


READER = Reader(_recognises, _read)
