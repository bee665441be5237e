"""Fault drills: lines that travel the whole path of a fault and are known for what they are at every station.

Only root may write into the kernel log, and what is written there comes back as user space's own (facility 1 or
more): no drill can be taken for the kernel's word, and no fault of the kernel's for a drill.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from wheeltapper import kmsg
from wheeltapper.kmsg import Record

MARK: Final = "wheeltapper-drill "
"""How the text of a drill's line begins; the drill's own id follows, and then the line that is played."""

LINES: Final[Mapping[str, str]] = {
    "xid-79": "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "xid-48": "NVRM: Xid (PCI:0000:3b:00): 48, pid=1, An uncorrectable double bit error (DBE) has been detected on GPU",
    "xid-13": "NVRM: Xid (PCI:0000:3b:00): 13, pid=1, name=python, Graphics Exception: ESR 0x504730=0x4",
    "link-down": "mlx5_core 0000:1a:00.0 ib0: Link down",
    "oom": "Out of memory: Killed process 1234 (python) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB",
}
"""What can be played: two faults that take a node out, and three that must not."""


def line(kind: str, mark: str) -> str:
    """Return what is written into the kernel log for a drill of *kind* with the id *mark*."""
    return f"{MARK}{mark} {LINES[kind]}"


def played(record: Record) -> tuple[str, Record] | None:
    """Return the id of the drill whose line *record* is, and the record as the kernel would have written it."""
    if record.facility == kmsg.KERNEL or not record.text.startswith(MARK):
        return None
    mark, _, text = record.text[len(MARK) :].partition(" ")
    return mark, replace(record, facility=kmsg.KERNEL, text=text)
