"""``dcgmi health -c`` and ``dcgmi diag``: NVIDIA's own checks of the GPUs of a node."""

from __future__ import annotations

import re

from wheeltapper.catalogue import Catalogue
from wheeltapper.evidence import Disposition, Finding, Role
from wheeltapper.inputs.model import Document, Reader, Reading, Rule
from wheeltapper.inputs.naming import scoped

_OURS = re.compile(r"^\| (?:Health Monitor Report|Overall Health|Diagnostic\s+\| Result)", re.MULTILINE)
_ROW = re.compile(r"^\|(?P<key>[^|]+)\|(?P<value>[^|]*)\|\s*$")
_BAD = re.compile(r"^(?P<word>Fail(?:ure)?|Warn(?:ing)?)\b(?: - .*?GPUs?: (?P<gpus>[\d, ]+))?")

SYSTEMS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"nvlink|nvswitch", re.IGNORECASE), "hardware/nvlink"),
    (re.compile(r"pcie|nvbandwidth", re.IGNORECASE), "hardware/pcie"),
    (re.compile(r"thermal", re.IGNORECASE), "hardware/thermal"),
    (re.compile(r"power", re.IGNORECASE), "hardware/power"),
    (re.compile(r"memory|page retirement|row remap|eud", re.IGNORECASE), "hardware/ecc_uncorrectable"),
)
"""DCGM's names of what it watches and of its tests, and what a failure of them is."""


def _recognises(document: Document) -> bool:
    return bool(_OURS.search(document.head))


def _read(document: Document, _catalogue: Catalogue) -> Reading:
    findings: list[Finding] = []
    gpu = ""
    for line, scope in scoped(document.lines, document.node):
        row = _ROW.match(line.text.rstrip())
        if not row:
            continue
        key = row["key"].strip().removeprefix("->").strip()
        if key.isdigit():
            gpu = key
        bad = _BAD.match(row["value"].strip())
        label = next((label for name, label in SYSTEMS if name.search(key)), None)
        if bad and label:
            fails = bad["word"].startswith("Fail")
            rule = Rule(
                "dcgm.failure" if fails else "dcgm.warning",
                label,
                f"DCGM's check of {key} {'fails' if fails else 'warns'}",
                Role.ROOT if fails else Role.CONFIRM,
                Disposition.INSPECT if fails else Disposition.NONE,
            )
            # DCGM names GPUs by index, which shifts when one is lost: it is told, but accuses no address.
            seen = document.seen(line, node=scope.node)
            findings.append(rule.of(seen, detail=f"gpu={(bad['gpus'] or gpu).strip()}"))
    return Reading(findings=tuple(findings))


READER = Reader(_recognises, _read)
