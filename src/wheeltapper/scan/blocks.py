"""Finding the few telling lines of a large stream in constant memory, with their true numbers and offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

BLOCK = 1 << 20
"""Bytes read at a time; also the longest line that is kept whole."""

LINE_ENDS = 1 << 16
"""Bytes kept of a longer line, from each end: progress bars grow one line for hours, and the cause comes last."""

BEFORE = 4096
"""Bytes before a line that are handed along with it: enough to hold a line that carries the time."""


class Readable(Protocol):
    """Anything that hands out bytes, such as an open file or a pipe."""

    def read(self, size: int, /) -> bytes:
        """Return up to *size* bytes, none at the end."""
        ...


@dataclass(frozen=True, slots=True)
class Telling:
    """A line that holds an anchor; ``number`` counts from 1, ``offset`` is its first byte."""

    raw: bytes
    number: int
    offset: int
    before: bytes


def telling_lines(
    stream: Readable, anchors: Callable[[str], Iterator[int]], *, number: int = 1, offset: int = 0
) -> Iterator[Telling]:
    """Yield the lines of *stream* in which *anchors* finds something.

    *anchors* returns the position of the last character of each literal that it finds. *number* and *offset* say
    where the stream begins. A line ends at LF only, as everywhere else.
    """
    rest = b""
    cut = 0  # bytes left out of the middle of a line that is too long
    while chunk := stream.read(BLOCK):
        block = rest + chunk
        end = block.rfind(b"\n") + 1
        if not end:
            rest, removed = _shorten(block)
            cut += removed
            continue
        whole, rest = block[:end], block[end:]
        yield from _in_block(whole, anchors, number, offset, cut)
        number += whole.count(b"\n")
        offset += len(whole) + cut
        rest, cut = _shorten(rest)
    if rest:
        yield from _in_block(rest, anchors, number, offset, cut)


def _shorten(line: bytes) -> tuple[bytes, int]:
    if len(line) <= BLOCK:
        return line, 0
    return line[:LINE_ENDS] + line[-LINE_ENDS:], len(line) - 2 * LINE_ENDS


def _in_block(
    block: bytes, anchors: Callable[[str], Iterator[int]], number: int, offset: int, cut: int
) -> Iterator[Telling]:
    # Latin-1 gives every byte one character, so that positions in the text are positions in the bytes.
    counted = done = 0
    for position in anchors(block.decode("latin-1")):
        if position < done:
            continue
        start = block.rfind(b"\n", 0, position) + 1
        done = block.find(b"\n", position) + 1 or len(block) + 1
        number += block.count(b"\n", counted, start)
        counted = start
        yield Telling(
            raw=block[start : done - 1],
            number=number,
            offset=offset + start + (cut if start else 0),
            before=block[max(0, start - BEFORE) : start],
        )
