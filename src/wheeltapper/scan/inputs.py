"""Files that a person hands over: which they are, and what each says. Knows no scheduler and needs no set-up."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import timezone, tzinfo
from pathlib import Path

from wheeltapper.catalogue import Catalogue
from wheeltapper.errors import WheeltapperError
from wheeltapper.evidence import Finding, Source
from wheeltapper.inputs import LARGEST, Document, Reading, reader_for
from wheeltapper.inputs.naming import node_in_name
from wheeltapper.scan.blocks import Readable
from wheeltapper.scan.kernel import looks_like_kernel, may_be_kernel, scan_kernel_log
from wheeltapper.scan.log import scan_log
from wheeltapper.scan.packed import Rejoined, unpacked

HEAD = 4096
"""Bytes from which a file's kind is told."""

_PACKED_NAME = re.compile(r"\.(?:gz|zst|zstd)$")
_KERNEL_NAME = re.compile(r"^(?:dmesg|kern|kmsg|console)\b|^journal-k\b|\bdmesg\b")
_SCHEDULER_NAME = re.compile(r"^slurmctld\b")
_SCHEDULER_LINE = re.compile(
    rb"^\[\d{4}-\d\d-\d\dT[\d:.]+\] (?:error: Nodes? |Node \S+ now responding|sched[:/]|_slurm_rpc_|"
    rb"_job_complete: |update_node: |cleanup_completing: |requeue job JobId=|Requeuing JobId=|"
    rb"slurmctld version |Time limit exhausted for JobId=)"
)
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


def read(given: Input, catalogue: Catalogue, zone: tzinfo | None = timezone.utc) -> Reading:
    """Return what the file *given* says; times without an offset are of *zone*, None being this machine's.

    Raises:
        WheeltapperError: it cannot be read.
    """
    try:
        with given.path.open("rb") as stream:
            return read_stream(stream, given.name, catalogue, zone)
    except OSError as error:
        raise WheeltapperError(f"{given.path} cannot be read: {error.strerror}") from error


def read_stream(stream: Readable, name: str, catalogue: Catalogue, zone: tzinfo | None = timezone.utc) -> Reading:
    """Return what *stream* says; *name* and its first bytes tell its kind.

    A time without an offset counts as UTC, so that the answer is the same on every machine, unless a *zone* is given.
    """
    stream = unpacked(stream)
    head = _up_to(HEAD, stream)
    reader = reader_for(_PACKED_NAME.sub("", name), head)
    if reader:
        head += _up_to(LARGEST + 1 - len(head), stream)
        if len(head) <= LARGEST:
            return reader.read(Document(name, head), catalogue)
    return Reading(findings=tuple(_of_log(Rejoined(head, stream), head, name, catalogue, zone)))


def _up_to(size: int, stream: Readable) -> bytes:
    """Return the next *size* bytes, fewer only at the end: a pipe hands out what it has."""
    parts = []
    while size and (part := stream.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _of_log(stream: Readable, head: bytes, name: str, catalogue: Catalogue, zone: tzinfo | None) -> Iterator[Finding]:
    if is_binary(head[:HEAD]):
        return
    kind = kind_of(name, head[:HEAD])
    if kind is Source.KERNEL:
        plain = _PACKED_NAME.sub("", name)
        named = _NODE_IN_NAME.match(Path(plain).name)
        node = named["node"] if named else node_in_name(plain)
        yield from scan_kernel_log(stream, catalogue, file=name, node=node, zone=zone)
    else:
        yield from scan_log(stream, catalogue, file=name, source=kind, zone=zone)


def kind_of(name: str, head: bytes) -> Source:
    """Return whose words a file holds, by its first bytes, *head*; its *name* is believed where they allow it."""
    base = Path(name).name
    if _SCHEDULER_NAME.match(base) or _SCHEDULER_LINE.match(head):
        return Source.SCHEDULER
    if looks_like_kernel(head) or (_KERNEL_NAME.search(base) and may_be_kernel(head)):
        return Source.KERNEL
    return Source.JOB_LOG


def is_binary(head: bytes) -> bool:
    """True for what is no text: archives, checkpoints, databases. A few NUL bytes make no log binary."""
    return head.startswith(b"PK\x03\x04") or head.count(0) > len(head) // 3
