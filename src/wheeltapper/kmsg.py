"""Records of the kernel's log device: ``priority,sequence,microseconds,flags[,…];text`` and `` KEY=value`` lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

KERNEL = 0
"""The facility that only the kernel can write: what user space writes is forced to 1 or more (syslog(2), printk)."""

_HEAD = re.compile(r"(\d{1,10}),(\d{1,20}),(\d{1,20}),[^;]*;")


@dataclass(frozen=True, slots=True)
class Record:
    """One record. ``usec`` counts from boot, ``level`` is syslog's severity (0 is the gravest)."""

    facility: int
    level: int
    sequence: int
    usec: int
    text: str
    fields: Mapping[str, str] = field(default_factory=dict)


def parse_record(text: str) -> Record | None:
    """Return the record in *text*, or None when it is none (a lone continuation line is none)."""
    head = _HEAD.match(text)
    if not head:
        return None
    priority, sequence, usec = (int(number) for number in head.groups())
    message, *rest = text[head.end() :].split("\n")
    pairs = (line[1:].partition("=") for line in rest if line.startswith(" "))
    fields = {key: value for key, equals, value in pairs if key and equals}
    return Record(priority >> 3, priority & 7, sequence, usec, message, fields)
