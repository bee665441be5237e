"""Files that a person hands over: which they are, and what each says. Knows no scheduler and needs no set-up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timezone
from pathlib import Path

from wheeltapper.catalogue import Catalogue
from wheeltapper.errors import WheeltapperError
from wheeltapper.evidence import Finding, Source
from wheeltapper.scan.blocks import Readable
from wheeltapper.scan.kernel import looks_like_kernel, scan_kernel_log
from wheeltapper.scan.log import scan_log

HEAD = 4096
"""Bytes from which a file's kind is told."""

_KERNEL_NAME = re.compile(r"^(?:dmesg|kern|kmsg|console)\b|^journal-k\b|\bdmesg\b")
_SCHEDULER_NAME = re.compile(r"^slurmctld\b")
_NODE_IN_NAME = re.compile(
    r"^(?:dmesg|kern|kmsg|console|journal-k)[._-](?!(?:log|txt|out)$)(?P<node>[\w-]+?)(?:\.(?:log|txt|out))?$"
)


@dataclass(frozen=True, slots=True)
class Input:
    """A file to be read, the name that findings give it, and its size in bytes."""

    path: Path
    name: str
    size: int


def inputs(paths: Iterable[Path]) -> list[Input]:
    """Return the files at *paths*, those of folders included, in the order of their names.

    Raises:
        WheeltapperError: there is no such file or folder, or a folder holds no file.
    """
    found: list[Input] = []
    for path in paths:
        if path.is_dir():
            files = sorted(each for each in path.rglob("*") if each.is_file() and not each.name.startswith("."))
            if not files:
                raise WheeltapperError(f"{path} holds no file")
            found += [Input(each, str(each.relative_to(path)), each.stat().st_size) for each in files]
        elif path.is_file():
            found.append(Input(path, str(path), path.stat().st_size))
        else:
            raise WheeltapperError(f"{path} does not exist")
    return found


def read(given: Input, catalogue: Catalogue) -> list[Finding]:
    """Return what the file *given* says.

    Raises:
        WheeltapperError: it cannot be read.
    """
    try:
        with given.path.open("rb") as stream:
            return list(read_stream(stream, given.name, catalogue))
    except OSError as error:
        raise WheeltapperError(f"{given.path} cannot be read: {error.strerror}") from error


def read_stream(stream: Readable, name: str, catalogue: Catalogue) -> Iterator[Finding]:
    """Yield what *stream* says; *name* and its first lines tell its kind.

    A time without an offset counts as UTC, so that the answer is the same on every machine.
    """
    head = stream.read(HEAD)
    if is_binary(head):
        return
    whole = _Rejoined(head, stream)
    kind = kind_of(name, head)
    if kind is Source.KERNEL:
        named = _NODE_IN_NAME.match(Path(name).name)
        node = named["node"] if named else None
        yield from scan_kernel_log(whole, catalogue, file=name, node=node, zone=timezone.utc)
    else:
        yield from scan_log(whole, catalogue, file=name, source=kind, zone=timezone.utc)


def kind_of(name: str, head: bytes) -> Source:
    """Return whose words a file holds, by its *name* and its first bytes."""
    base = Path(name).name
    if _SCHEDULER_NAME.match(base):
        return Source.SCHEDULER
    if _KERNEL_NAME.search(base) or looks_like_kernel(head):
        return Source.KERNEL
    return Source.JOB_LOG


def is_binary(head: bytes) -> bool:
    """True for what is no text: compressed logs, checkpoints, databases. A few NUL bytes make no log binary."""
    return head.startswith((b"\x1f\x8b", b"PK\x03\x04", b"\x28\xb5\x2f\xfd")) or head.count(0) > len(head) // 3


class _Rejoined:
    """A stream whose first bytes were read already."""

    def __init__(self, head: bytes, rest: Readable) -> None:
        self._head = head
        self._rest = rest

    def read(self, size: int, /) -> bytes:
        head, self._head = self._head, b""
        return head or self._rest.read(size)
