"""What ``df``, ``lfs df``, ``stat -f``, Python's ``statvfs`` and ``quota`` say: which file systems are full."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from wheeltapper.catalogue import Catalogue
from wheeltapper.evidence import Finding
from wheeltapper.inputs.model import HEAD, Document, Line, Reader, Reading, Rule

FULL = Rule("filesystem.full", "resource/disk_full", "a file system is full")
NO_INODES = Rule("filesystem.inodes", "resource/disk_full", "a file system can hold no further file")
SHM = Rule("filesystem.shm", "resource/shm", "shared memory (/dev/shm) is full")
QUOTA = Rule("filesystem.quota", "resource/disk_full", "a quota is used up")

LITTLE_BYTES = 1 << 30
"""Free bytes below which a file system is full: a shard of a checkpoint is larger."""

LITTLE_INODES = 1000
"""The same for inodes: the caches of one run hold more files."""

_TABLE = re.compile(r"^(?:Filesystem|UUID)\s.*\s(?:Use%|IUse%|Capacity)\s+Mounted on\s*$", re.MULTILINE)
_ROW = re.compile(r"^(?P<device>\S*)\s.*?\s(?P<free>[\d.]+)(?P<unit>[KMGTPE]?)i?B?\s+\d+%\s+(?P<mount>/\S*)")
_BLOCKS = re.compile(r"\s(?P<size>\d+)(?P<unit>[KMG]?)B?-blocks\s")
_QUOTAS = re.compile(r"^\s*Filesystem\s+(?:blocks|space)\s+quota\s+limit\s+grace\b", re.MULTILINE)
_OVER = re.compile(r"\s[\d.]+[KMGTPE]?\*\s")
"""``quota`` marks what is over its limit with a star."""

_STAT_FILE = re.compile(r'^\s*File: "(?P<mount>/[^"]*)"', re.MULTILINE)
_STAT_SIZE = re.compile(r"^\s*Block size: (?P<size>\d+)", re.MULTILINE)
_STAT_BLOCKS = re.compile(r"^\s*Blocks: Total: [1-9]\d*\s+Free: \d+\s+Available: (?P<free>\d+)")
_STAT_INODES = re.compile(r"^\s*Inodes: Total: [1-9]\d*\s+Free: (?P<free>\d+)")
_STATVFS = re.compile(
    r"(?:(?P<mount>/[^\s'\":,)]*)\W.*?)?statvfs_result\(.*?f_frsize=(?P<size>\d+), f_blocks=[1-9]\d*, .*?"
    r"f_bavail=(?P<free>\d+), f_files=(?P<files>\d+), .*?f_favail=(?P<inodes>\d+)"
)
_OF_TOOLS = re.compile(
    r"\s\d+%\s+/|\s-\s+/|Mounted on\s*$|^\s*Filesystem\s|^Disk quotas|\s\d+\s+\d+\s*$|statvfs_result\(|^\s*File: \""
    r"|^\s*ID: |^\s*Block size: |^\s*(?:Blocks|Inodes): Total: |^[$#+=>]|^\S+:?$"
)
"""Lines of these tools, with the commands and headings that people put between them, and long names on their own."""

SHARE = 0.8
"""Of the first lines."""

_NEVER_WRITTEN = re.compile(r"(?:/dev/loop\d|/dev/sr\d|squashfs|cvmfs)|/(?:snap|cvmfs|media|boot|sys|proc)(?:/|$)")
"""Devices and mounts of images, which are always full, and of what belongs to no job."""

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50, "E": 1 << 60}


@dataclass(frozen=True, slots=True)
class _Free:
    """What is left on *mount*: bytes, or inodes."""

    mount: str
    left: float
    inodes: bool = False

    @property
    def rule(self) -> Rule | None:
        if self.left >= (LITTLE_INODES if self.inodes else LITTLE_BYTES):
            return None
        if self.mount == "/dev/shm":  # noqa: S108 - the name of a mount; nothing is written there
            return SHM
        return NO_INODES if self.inodes else FULL


def _recognises(document: Document) -> bool:
    """True when nearly all lines are such a tool's: scripts print ``df`` at the top of logs, which are no documents."""
    head = document.head
    if not (any(shape.search(head) for shape in (_TABLE, _QUOTAS, _STATVFS)) or _STAT_SIZE.search(head)):
        return False
    # The last line may be cut off.
    lines = [line for line in head.split("\n")[: -1 if len(head) >= HEAD else None] if line.strip()]
    known = [bool(_OF_TOOLS.search(line)) for line in lines]
    return bool(known) and known[-1] and sum(known) >= SHARE * len(known)


def _read(document: Document, _catalogue: Catalogue) -> Reading:
    findings: list[Finding] = []
    header, mount, size = "", "", 1
    for line in document.lines:
        if _TABLE.match(line.text) or _QUOTAS.match(line.text):
            header = line.text
        elif not line.text.strip():
            header = ""
        elif named := _STAT_FILE.match(line.text):
            mount = named["mount"]
        elif sized := _STAT_SIZE.match(line.text):
            size = int(sized["size"])
        elif _QUOTAS.match(header):
            findings += [QUOTA.of(document.seen(line))] if _OVER.search(f"{line.text} ") else []
        else:
            frees = _of_table(line, header) if header else _of_calls(line, mount, size)
            findings += [rule.of(document.seen(line), mount=each.mount) for each in frees if (rule := each.rule)]
    return Reading(findings=tuple(findings))


def _of_table(line: Line, header: str) -> Iterator[_Free]:
    row = _ROW.match(line.text)
    if not row or _NEVER_WRITTEN.match(row["device"]) or _NEVER_WRITTEN.match(row["mount"]):
        return
    inodes = "IUse%" in header
    blocks = None if inodes else _BLOCKS.search(header)
    unit = int(blocks["size"]) * _UNITS[blocks["unit"]] if blocks else _UNITS[row["unit"]]
    yield _Free(row["mount"], float(row["free"]) * unit, inodes)


def _of_calls(line: Line, mount: str, size: int) -> Iterator[_Free]:
    if blocks := _STAT_BLOCKS.match(line.text):
        yield _Free(mount, int(blocks["free"]) * size)
    elif inodes := _STAT_INODES.match(line.text):
        yield _Free(mount, int(inodes["free"]), inodes=True)
    elif told := _STATVFS.search(line.text):
        yield _Free(told["mount"] or "", int(told["free"]) * int(told["size"]))
        if told["files"] != "0":
            yield _Free(told["mount"] or "", int(told["inodes"]), inodes=True)


READER = Reader(_recognises, _read)
