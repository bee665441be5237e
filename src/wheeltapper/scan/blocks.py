"""Finding the few telling pieces of a large stream in constant memory, with their true numbers and offsets.

A piece is what a terminal shows as one line: it ends at LF or CR. Lines are counted by LF alone, as everywhere else.
What is found depends on the bytes and never on how they arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from wheeltapper.scan.line_ends import LARGE, LineEnds

BLOCK = 1 << 18
"""Bytes read at a time: they stay in the processor's cache while they are searched and counted."""

KEPT = 1 << 16
"""Bytes kept of either end of a piece that is longer than both: dumps of megabytes have their say at the ends."""

LONGEST = 2 * KEPT
"""Bytes of the longest piece that is kept whole."""

BEFORE = 4096
"""Bytes before a piece that are handed along with it: enough to hold a line that carries the time."""

BEFORE_LAST = 512
"""The same for the last of a burst: one of them is held for every rank of the largest jobs."""

LITERAL_MAX = 256
"""No literal is longer: so much of the past is needed to see one that two reads have parted."""

Ends = Callable[[bytes], Sequence[int]]
"""Returns in rising order where literals end in a block: the index of the last byte of each."""


class Readable(Protocol):
    """Anything that hands out bytes, such as an open file or a pipe."""

    def read(self, size: int, /) -> bytes:
        """Return up to *size* bytes, none at the end."""
        ...


class Piece(NamedTuple):
    """A piece that holds a literal; ``number`` and ``offset`` are of its line: counted from 1, and its first byte.

    ``start`` is the first byte of the piece itself.
    """

    raw: bytes
    number: int
    offset: int
    start: int
    before: bytes


class Slot:
    """Keeps the last of the pieces that were put off to it, as the values of a :class:`Piece`."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        """Begin empty."""
        self.last: tuple[bytes, int, int, int, bytes] | None = None


PutOff = Callable[[bytes], "Slot | None"]
"""Returns None for a piece to be handed out at once, else the slot that keeps it until a later one takes its place."""


def telling_pieces(
    stream: Readable, ends: Ends, put_off: PutOff | None = None, *, number: int = 1, offset: int = 0
) -> Iterator[Piece]:
    """Yield the pieces of *stream* in which *ends* finds something, in order, but for those that are *put_off*.

    *number* and *offset* say where the stream begins.
    """
    search = _Search(ends, put_off or (lambda _raw: None), number, offset)
    rest = b""
    long: _Long | None = None
    while chunk := stream.read(BLOCK):
        begin = 0
        if long or rest:
            stop = _first_break(chunk)
            if long:
                long.add(chunk[:stop], ends)
            else:
                rest += chunk[: stop + 1]
            if stop == len(chunk):
                long, rest = _grown(long, rest, ends)
                continue
            # What two reads have parted is searched by itself: joining whole blocks would copy every byte once more.
            yield from search.long_piece(long) if long else search.block(rest, 0, len(rest))
            begin = stop if long else stop + 1
            long = None
        end = max(chunk.rfind(b"\n", begin), chunk.rfind(b"\r", begin)) + 1 or begin
        yield from search.block(chunk, begin, end)
        long, rest = _grown(None, chunk[end:], ends)
    if long:
        yield from search.long_piece(long)
    yield from search.block(rest, 0, len(rest))


def _grown(long: _Long | None, rest: bytes, ends: Ends) -> tuple[_Long | None, bytes]:
    if long is None and len(rest) > LONGEST:
        return _Long(rest, ends), b""
    return long, rest


def _first_break(chunk: bytes) -> int:
    newline = chunk.find(b"\n")
    end = newline if newline >= 0 else len(chunk)
    back = chunk.find(b"\r", 0, end)
    return back if back >= 0 else end


def _shortened(head: bytes, tail: bytes | None = None) -> bytes:
    # The line feed keeps the two ends from making up a word between them.
    return head[:KEPT] + b"\n" + (tail or head)[-KEPT:]


class _Long:
    """A piece too long to be kept whole, while it goes by."""

    def __init__(self, begun: bytes, ends: Ends) -> None:
        self.head = begun[:KEPT]
        self.tail = begun[-KEPT:]
        self.length = len(begun)
        self.tells = bool(ends(begun))

    def add(self, more: bytes, ends: Ends) -> None:
        self.tells = self.tells or bool(ends(self.tail[-LITERAL_MAX:] + more))
        self.tail = (self.tail + more)[-KEPT:]
        self.length += len(more)


class _Search:
    """Where the search stands: the next byte, the number and first byte of its line, and what stands before it."""

    def __init__(self, ends: Ends, put_off: PutOff, number: int, offset: int) -> None:
        self._ends = ends
        self._put_off = put_off
        self._number = number
        self._line = offset
        self._at = offset
        self._before = b""
        self._line_ends = LineEnds()

    def long_piece(self, long: _Long) -> Iterator[Piece]:
        """Yield the piece that has gone by, when it tells."""
        if long.tells:
            raw = _shortened(long.head, long.tail)
            yield Piece(raw, self._number, self._line, self._at, self._before)
        self._at += long.length
        self._before = long.tail[-BEFORE:]

    def block(self, block: bytes, begin: int, end: int) -> Iterator[Piece]:
        """Yield the telling pieces in *block* from *begin*, where a piece begins, up to *end*, where one ends."""
        number, line, put_off = self._number, self._line, self._put_off
        at = self._at - begin
        find, find_back, count, count_ends = block.find, block.rfind, block.count, self._line_ends.count
        has_bars = find(b"\r", begin, end) >= 0
        done = counted = begin
        floor = max(0, begin - 1)  # the end of the piece before, so that it is seen again
        whole = begin + BEFORE_LAST
        for position in self._ends(block) if end > begin else ():
            if position < done:
                continue
            if position >= end:
                break
            newline = find_back(b"\n", floor, position)
            start = newline + 1 or done
            stop = find(b"\n", position, end)
            if stop < 0:
                stop = end
            if newline >= 0:
                line = at + start
            if has_bars:
                start = find_back(b"\r", max(newline, floor), position) + 1 or start
                back = find(b"\r", position, stop)
                stop = back if back >= 0 else stop
            number += count_ends(block, counted, start) if start - counted >= LARGE else count(b"\n", counted, start)
            counted, floor, done = start, stop, stop + 1
            raw = block[start:stop] if stop - start <= LONGEST else _shortened(block[start:stop])
            slot = put_off(raw)
            if slot is None:
                yield Piece(raw, number, line, at + start, self._text_before(block, begin, start))
            elif start >= whole:
                # Not worth a Piece: of a burst's million lines one is looked at.
                slot.last = raw, number, line, at + start, block[start - BEFORE_LAST : start]
            else:
                slot.last = raw, number, line, at + start, self._text_before(block, begin, start)[-BEFORE_LAST:]
        newline = block.rfind(b"\n", begin, end)
        self._line = at + newline + 1 if newline >= 0 else line
        self._number = number + self._line_ends.count(block, counted, end)
        self._before = self._text_before(block, begin, end)
        self._at = at + end

    def _text_before(self, block: bytes, begin: int, start: int) -> bytes:
        if start - begin >= BEFORE:
            return block[start - BEFORE : start]
        return (self._before + block[begin:start])[-BEFORE:]
