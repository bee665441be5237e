"""The event log of a node's management controller (``ipmitool sel list`` and ``elist``): power, heat, fans, memory.

The log keeps years: only what was asserted and not taken back counts, and its time decides whether it is of the job.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone

from wheeltapper.catalogue import Catalogue
from wheeltapper.evidence import Disposition, Finding, Role
from wheeltapper.inputs.model import Document, Line, Reader, Reading, Rule

_ROW = re.compile(
    r"^\s*(?P<id>[0-9a-fA-F]+) \|\s*(?P<date>\d\d/\d\d/\d{2,4}|Pre-Init)\s*\|\s*(?P<time>[\d:]+)(?: UTC| [A-Z]{3,4})?"
    r"\s*\|\s*(?P<sensor>[^|]+?)\s*\|\s*(?P<event>[^|]+?)\s*\|\s*(?P<way>Asserted|Deasserted)"
)

_OUT = Disposition.INSPECT
RULES: tuple[tuple[re.Pattern[str], re.Pattern[str], Rule], ...] = tuple(
    (re.compile(sensor, re.IGNORECASE), re.compile(event, re.IGNORECASE), rule)
    for sensor, event, rule in (
        # More supplies are gone than the spare ones: the platform slows its GPUs or switches off.
        (r"^power unit", r"insufficient resources|power off|soft.power control failure|unrecoverable",
         Rule("bmc.power", "hardware/power", "the node's power supply no longer suffices", Role.ROOT, _OUT)),
        (r"^power supply", r"failure|ac lost|input lost|predictive",
         Rule("bmc.power_supply", "hardware/power", "a power supply failed")),
        (r"thermal|^temp|temperature", r"(?:critical|non-recoverable) going high|over.?temp|thermal trip",
         Rule("bmc.temperature", "hardware/thermal", "the node is too hot", Role.ROOT, _OUT)),
        (r"^fan", r"lower (?:critical|non-recoverable) going low|failure",
         Rule("bmc.fan", "hardware/thermal", "a fan failed")),
        (r"^memory", r"uncorrectable",
         Rule("bmc.memory", "hardware/host_memory", "host memory had an uncorrectable error", Role.ROOT, _OUT)),
        (r"^memory", r"correctable ecc logging limit",
         Rule("bmc.memory_limit", "hardware/host_memory", "host memory corrects errors all the time")),
        (r"^processor", r"ierr|thermal trip|machine check|uncorrectable|frb\d",
         Rule("bmc.processor", "hardware/host_cpu", "a processor failed", Role.ROOT, _OUT)),
        (r"^critical interrupt", r"serr|perr|bus fatal|bus uncorrectable|fatal nmi",
         Rule("bmc.bus", "hardware/pcie", "a bus reported a fatal error", Role.ROOT, _OUT)),
        (r"^drive", r"drive fault|predictive failure", Rule("bmc.drive", "hardware/storage", "a drive failed")),
    )
)  # fmt: skip
"""Sensor, event and their meaning. Source: the IPMI specification's sensor and event types, as ipmitool prints them."""

SUPPLIES_MAX = 1
"""Failed supplies that a node with spare ones survives."""


@dataclass(frozen=True, slots=True)
class _Event:
    line: Line
    at: float | None
    sensor: str
    event: str
    asserted: bool


def _recognises(document: Document) -> bool:
    rows = [line for line in document.head.splitlines()[:20] if line.strip()]
    return bool(rows) and sum(bool(_ROW.match(row)) for row in rows) * 2 > len(rows)


def _read(document: Document, _catalogue: Catalogue) -> Reading:
    events = [event for line in document.lines if (event := _event(line))]
    standing = [each for number, each in enumerate(events) if each.asserted and not _taken_back(each, events[number:])]
    found = [finding for each in standing if (finding := _judge(document, each))]
    return Reading(findings=tuple(_raised(found)))


def _event(line: Line) -> _Event | None:
    row = _ROW.match(line.text)
    if not row:
        return None
    return _Event(line, _time(row["date"], row["time"]), row["sensor"], row["event"], row["way"] == "Asserted")


def _time(date: str, clock: str) -> float | None:
    form = "%m/%d/%Y %H:%M:%S" if len(date) == len("mm/dd/yyyy") else "%m/%d/%y %H:%M:%S"
    try:
        return datetime.strptime(f"{date} {clock}", form).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return None


def _taken_back(event: _Event, later: list[_Event]) -> bool:
    return any(
        each.sensor == event.sensor
        and ((each.event == event.event and not each.asserted) or "fully redundant" in each.event.lower())
        for each in later
    )


def _judge(document: Document, event: _Event) -> Finding | None:
    for sensor, what, rule in RULES:
        if sensor.search(event.sensor) and what.search(event.event):
            return rule.of(document.seen(event.line, at=event.at), sensor=event.sensor)
    return None


def _raised(found: list[Finding]) -> list[Finding]:
    """Make supplies that failed convict when the node cannot spare them, so that the first of them is the root."""
    supplies = {each.fields["sensor"] for each in found if each.signature == "bmc.power_supply"}
    if len(supplies) <= SUPPLIES_MAX and not any(each.signature == "bmc.power" for each in found):
        return found
    failed = Rule("bmc.power_supply", "hardware/power", "more power supplies failed than are to spare", Role.ROOT, _OUT)
    return [failed.of(each.evidence, **each.fields) if each.signature == failed.signature else each for each in found]


READER = Reader(_recognises, _read)
