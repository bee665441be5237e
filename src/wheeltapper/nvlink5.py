"""What the registers of an NVLink 5 message (Xid 144 to 150) mean: NVIDIA's table of bits beside this file's reader.

Source: the sheet "Xid 144-150 Decode" of NVIDIA's Xid catalogue, edition of 2025-09-30. A row holds for a message when
its unit, the bits of the first register (masks differ before and since driver R575) and a bit of the error status
agree. Of several rows that hold the gravest counts.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Final

from wheeltapper.evidence import Disposition, Finding, Role

SIGNATURE: Final = "nvidia.xid.nvlink5"
"""How the signatures of such messages begin; their fields are code, unit, word, info and status."""

ANY: Final = "-"
"""A bit of a mask that does not count."""

WHOLE_STATUS: Final = frozenset({"NETIR_BER_EVENT", "NETIR_MFDE_EVENT"})
"""Units whose error status is a number and not a set of bits."""

GRAVITY: Final = ("ignore", "xid_154_eval", "reset_gpu")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table; ``look_at`` says what NVIDIA would look at next."""

    code: int
    units: frozenset[str]
    masks: tuple[str, ...]
    status: int | None
    action: str
    promoted: tuple[str, ...]
    look_at: str


@cache
def table() -> tuple[Row, ...]:
    """Return NVIDIA's table."""
    text = (resources.files("wheeltapper.catalogue") / "data" / "nvlink5.csv").read_text(encoding="utf-8")
    return tuple(
        Row(
            code=int(each["xid"]),
            units=frozenset(each["units"].split("/")),
            masks=(each["info_before_r575"], each["info_since_r575"]),
            status=int(each["status"].partition("/")[0], 16) if each["status"] else None,
            action=each["action"],
            promoted=tuple(filter(None, (each["promoted_before_r575"], each["promoted_since_r575"]))),
            look_at=each["look_at"],
        )
        for each in csv.DictReader(text.splitlines())
    )


def decode(code: int, unit: str, info: int, status: int) -> tuple[str, str] | None:
    """Return the action for a message and what to look at next, or None when the table knows no such message."""
    found: list[tuple[str, str]] = []
    for row in table():
        if row.code != code or unit not in row.units or not _status_holds(row, unit, status):
            continue
        if any(_holds(mask, info) for mask in row.promoted):
            found.append(("reset_gpu", row.look_at))
        elif any(_holds(mask, info) for mask in row.masks):
            found.append((row.action, row.look_at))
    return max(found, key=lambda each: GRAVITY.index(each[0]), default=None)


def _holds(mask: str, value: int) -> bool:
    bits = f"{value:032b}"
    return all(wanted not in {"0", "1"} or wanted == bit for wanted, bit in zip(mask, bits, strict=True))


def _status_holds(row: Row, unit: str, status: int) -> bool:
    if row.status is None:
        return True
    if unit in WHOLE_STATUS or row.status == 0:
        return row.status == status
    return bool(row.status & status)


def decoded(findings: Iterable[Finding]) -> list[Finding]:
    """Return *findings* with each NVLink 5 message judged by its registers.

    What the table ignores convicts no GPU, whatever its word; a mild word never becomes a conviction here, because the
    driver would have said fatal. What to look at next joins the summary.
    """
    return [_decoded(each) if each.signature.startswith(SIGNATURE) else each for each in findings]


def _decoded(finding: Finding) -> Finding:
    fields = finding.fields
    if "info" not in fields:
        return finding
    meaning = decode(int(fields["code"]), fields["unit"], int(fields["info"], 16), int(fields.get("status", "0"), 16))
    if meaning is None:
        return finding
    action, look_at = meaning
    summary = f"{finding.summary}; look at {look_at}" if look_at else finding.summary
    if action != "reset_gpu" and finding.role is Role.ROOT:
        return replace(finding, role=Role.SYMPTOM, disposition=Disposition.NONE, summary=summary)
    return replace(finding, summary=summary)
