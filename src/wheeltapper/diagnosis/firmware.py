"""The firmware's own reports (APEI): a severity, and some lines later the section that says what was hit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wheeltapper.evidence import Disposition, Finding, Role
from wheeltapper.labels import Label

EVENT = "host.ghes"
SECTION = "host.ghes.section"

LINES_MAX = 12
"""A report's header is this long at most before its first section."""

MEANING = {
    "memory": ("hardware/host_memory", Disposition.REPLACE),
    "PCIe": ("hardware/pcie", Disposition.REBOOT),
    "general processor": ("hardware/host_cpu", Disposition.INSPECT),
    "IA32/X64 processor": ("hardware/host_cpu", Disposition.INSPECT),
    "ARM processor": ("hardware/host_cpu", Disposition.INSPECT),
}
"""By the first words of the section's type. Source: drivers/firmware/efi/cper.c."""

UNKNOWN = ("hardware/host_cpu", Disposition.NONE)


def with_sections(told: Sequence[Finding]) -> list[Finding]:
    """Return *told* with each report labelled by its section; a report without one convicts nobody.

    A recoverable PCIe error was recovered from: it confirms and no more.
    """
    sections = [each for each in told if each.signature == SECTION]
    return [_labelled(each, sections) if each.signature == EVENT else each for each in told]


def _labelled(event: Finding, sections: Sequence[Finding]) -> Finding:
    section = next((each for each in sections if _follows(each, event)), None)
    said = section.fields["section"] if section else ""
    label, disposition = next((meaning for words, meaning in MEANING.items() if said.startswith(words)), UNKNOWN)
    if label == "hardware/pcie" and event.fields["severity"] != "fatal":
        return replace(event, label=Label(label), role=Role.CONFIRM)
    return replace(event, label=Label(label), disposition=disposition)


def _follows(section: Finding, event: Finding) -> bool:
    late, early = section.evidence, event.evidence
    if (late.node, late.boot_id, late.file) != (early.node, early.boot_id, early.file):
        return False
    if late.sequence is not None and early.sequence is not None:
        return 0 < late.sequence - early.sequence <= LINES_MAX
    return 0 < (late.line or 0) - (early.line or 0) <= LINES_MAX
