"""The logs of a job: hearsay, but with file, line and rank. Constant memory, and no byte of it can stop the scan."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import tzinfo
from pathlib import Path
from typing import BinaryIO, NamedTuple

from wheeltapper.catalogue import Catalogue, Match
from wheeltapper.evidence import Disposition, Evidence, Finding, Role, Source
from wheeltapper.labels import UNKNOWN
from wheeltapper.scan.blocks import BLOCK, Piece, Readable, telling_pieces
from wheeltapper.scan.bursts import Bursts
from wheeltapper.scan.clock import Clock
from wheeltapper.scan.ending import Ending
from wheeltapper.scan.finding import Kind, bounded, excerpt, finding, gpu_of, node_of
from wheeltapper.scan.text import is_echo, printable, rank_in_name, without_foreign_prefix, without_prefix

WENT_ON = "run.went_on"
"""The signature of a run that took further steps after all that its log tells of failures."""

HANGS = frozenset({"network/nccl_timeout", "scheduler/time_limit", "scheduler/cancelled"})
"""How a run ends that hung: what stopped it lies before its silence, however long that was."""


def scan_log(
    stream: Readable,
    catalogue: Catalogue,
    *,
    file: str,
    node: str | None = None,
    source: Source = Source.JOB_LOG,
    zone: tzinfo | None = None,
) -> Iterator[Finding]:
    """Yield what the log in *stream* says: the first findings of a kind as they come, the last of a burst at the end.

    Times without an offset are of *zone*, by default this machine's. A line without a time has that of the nearest
    line above it.
    """
    return _scan(stream, catalogue, _Origin(file, node, source, zone))


def scan_file(
    path: Path,
    catalogue: Catalogue,
    *,
    file: str | None = None,
    node: str | None = None,
    zone: tzinfo | None = None,
    tail_bytes: int | None = None,
) -> list[Finding]:
    """Return what the job's log at *path* says, in its order; *file* is its name in findings.

    With *tail_bytes* only the whole lines within that many last bytes are searched; their numbers stay true.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as stream:
        number, offset = _skip(stream, tail_bytes)
        origin = _Origin(file or str(path), node, Source.JOB_LOG, zone, number, offset)
        return sorted(_scan(stream, catalogue, origin), key=lambda each: each.evidence.line or 0)


@dataclass(frozen=True, slots=True)
class _Origin:
    """Where a stream comes from; ``number`` and ``offset`` are the line and byte at which it begins."""

    file: str
    node: str | None
    source: Source
    zone: tzinfo | None
    number: int = 1
    offset: int = 0


def _scan(stream: Readable, catalogue: Catalogue, origin: _Origin) -> Iterator[Finding]:
    bursts = Bursts()
    ending = Ending(stream, origin.offset)
    pieces = telling_pieces(
        ending,
        lambda block: catalogue.ends(block, origin.source),
        bursts.put_off,
        number=origin.number,
        offset=origin.offset,
    )
    rank = rank_in_name(origin.file)
    seen = (each for piece in _read(pieces, bursts) for each in _sightings(piece, catalogue, origin.source, rank))
    # What is not kept is not worked out: finding the time of a line costs more than matching it.
    clock = Clock(origin.zone)
    last_words: list[_Sighting] = []
    last = 0
    for each in bounded(seen, _kind, lambda seen: seen.piece.start):
        if each.match.last_words:
            last_words.append(each)
            continue
        if each.match.meaning.role is not Role.BENIGN:
            last = max(last, each.piece.start + len(each.piece.raw))
        yield _finding(each, origin, clock)
    at_the_end = [each for each in last_words if ending.is_last_word(each.piece.start, len(each.piece.raw))]
    if last and not at_the_end and origin.source is Source.JOB_LOG and ending.goes_on(last):
        yield _went_on(origin, last)
    for each in at_the_end:
        yield _finding(each, origin, clock)


def _went_on(origin: _Origin, offset: int) -> Finding:
    """Return the fact that the run took steps after the byte at *offset*; see diagnosis/known.py."""
    evidence = Evidence(origin.source, "the run went on", node=origin.node, file=origin.file, offset=offset)
    return Finding(WENT_ON, UNKNOWN, Role.BENIGN, Disposition.NONE, evidence, "", "the run went on")


def _read(pieces: Iterator[Piece], bursts: Bursts) -> Iterator[Piece]:
    yield from pieces
    yield from bursts.last_ones()


def _skip(stream: BinaryIO, tail_bytes: int | None) -> tuple[int, int]:
    """Go to the first whole line within the last *tail_bytes*; return its number and offset."""
    start = os.fstat(stream.fileno()).st_size - tail_bytes if tail_bytes is not None else 0
    if start <= 0:
        return 1, 0
    newlines = 0
    left = start - 1  # the byte before decides whether a line begins at the start itself
    while left and (chunk := stream.read(min(left, BLOCK))):
        newlines += chunk.count(b"\n")
        left -= len(chunk)
    while (piece := stream.readline(BLOCK)) and not piece.endswith(b"\n"):
        pass
    return newlines + 2, stream.tell()


class _Sighting(NamedTuple):
    """A match, the piece that it was found in, and the rank that spoke."""

    match: Match
    piece: Piece
    text: str
    rank: int | None


def _sightings(piece: Piece, catalogue: Catalogue, source: Source, rank_of_file: int | None) -> Iterator[_Sighting]:
    text, labelled = without_prefix(printable(piece.raw))
    if is_echo(text):
        return
    matches = catalogue.match(text, source)
    unsaid = all(match.last_words for match in matches)
    # Only what is indented behind its prefix can be an echo: most lines need no look for a prefix.
    if source is Source.JOB_LOG and (unsaid or "  " in text or "\t" in text):
        bare, named = without_foreign_prefix(text)
        if is_echo(bare):
            return
        if unsaid and bare != text and (more := catalogue.match(bare, source)):
            text, matches, labelled = bare, more, named if named is not None else labelled
    for match in matches:
        said = match.fields.get("rank")
        rank = int(said) if said else labelled
        yield _Sighting(match, piece, text, rank if rank is not None else rank_of_file)


def _kind(seen: _Sighting) -> Kind:
    """Return what is told apart in a burst: who speaks, and in a coordinator's list of the missing, of whom."""
    fields = seen.match.fields
    return seen.match.signature, seen.rank, fields.get("listed") or fields.get("silent")


def _finding(seen: _Sighting, origin: _Origin, clock: Clock) -> Finding:
    evidence = Evidence(
        source=origin.source,
        text=excerpt(seen.text),
        at=clock.at(seen.piece),
        node=node_of(seen.match, origin.source) or origin.node,
        gpu=gpu_of(seen.match),
        rank=seen.rank,
        file=origin.file,
        line=seen.piece.number,
        offset=seen.piece.offset,
    )
    found = finding(seen.match, evidence)
    quiet = clock.quiet_before(seen.piece) if found.label in HANGS else None
    return replace(found, fields={**found.fields, "quiet_s": f"{quiet:.0f}"}) if quiet else found
