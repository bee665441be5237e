"""The sensors of a node's management controller (``ipmitool sdr`` and ``sensor``): what is beyond its limits now."""

from __future__ import annotations

import re

from wheeltapper.catalogue import Catalogue
from wheeltapper.evidence import Disposition, Finding, Role
from wheeltapper.inputs.model import Document, Reader, Reading, Rule
from wheeltapper.inputs.naming import scoped

_ROW = re.compile(
    r"^(?P<sensor>[\w ./#+-]{2,24}?)\s*\| (?P<value>-?[\d.]+) ?\|? ?(?P<unit>degrees C|RPM|Watts|Volts|percent|Amps)\s*"
    r"\| (?P<status>ok|nc|cr|nr|ns|lcr|ucr|lnr|unr|lnc|unc)\b"
)
_BEYOND = frozenset({"cr", "nr", "lcr", "ucr", "lnr", "unr"})
"""Critical and non-recoverable; non-critical (nc) is a warning that a healthy node may show in summer."""

RULES = {
    "degrees C": Rule("bmc.hot", "hardware/thermal", "a temperature is critical", Role.ROOT, Disposition.INSPECT),
    "RPM": Rule("bmc.fan_slow", "hardware/thermal", "a fan is too slow"),
    "Volts": Rule("bmc.voltage", "hardware/power", "a voltage is beyond its limits"),
    "Watts": Rule("bmc.watts", "hardware/power", "a power supply is beyond its limits"),
    "Amps": Rule("bmc.amps", "hardware/power", "a current is beyond its limits"),
}


def _recognises(document: Document) -> bool:
    rows = [row for row in document.head.splitlines()[:40] if " | " in row]
    return sum(bool(_ROW.match(row)) for row in rows) > len(rows) // 3 > 0


def _read(document: Document, _catalogue: Catalogue) -> Reading:
    findings: list[Finding] = []
    for line, scope in scoped(document.lines, document.node):
        row = _ROW.match(line.text)
        if row and row["status"] in _BEYOND and row["unit"] in RULES:
            seen = document.seen(line, node=scope.node, at=scope.at)
            findings.append(RULES[row["unit"]].of(seen, detail=f"{row['sensor'].strip()}={row['value']}"))
    return Reading(findings=tuple(findings))


READER = Reader(_recognises, _read, order=60)
