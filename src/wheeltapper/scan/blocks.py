"""Finding the few telling pieces of a large stream in constant memory, with their true numbers and offsets.

A piece is what a terminal shows as one line: it ends at LF or CR. Lines are counted by LF alone, as everywhere else.
What is found depends on the bytes and never on how they arrive.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import NamedTuple, Protocol

from wheeltapper.scan.line_ends import LineEnds

BLOCK = 1 << 19
"""Bytes read at a time: they stay in the processor's cache while they are searched and counted.

Half as many cost a tenth of the speed where every third line is an error, a hundredth elsewhere; twice as many bring
nothing.
"""

KEPT = 1 << 16
"""Bytes kept of either end of a piece that is longer than both: dumps of megabytes have their say at the ends."""

LONGEST = 2 * KEPT
"""Bytes of the longest piece that is kept whole."""

BEFORE = 4096
"""Bytes before a piece that are handed along with it: enough to hold a line that carries the time."""

BEFORE_LAST = 512
"""The same for the last of a burst: one of them is held for every rank of the largest jobs."""

HELD = 1 << 22
"""Bytes of blocks that are held until the last pieces of bursts are taken out of them."""

LITERAL_MAX = 256
"""No literal is longer: so much of the past is needed to see one that two reads have parted."""

Ends = Callable[[bytes], Sequence[int]]
"""Returns in rising order where the pieces of a block end that hold a literal: at an LF, a CR, or the block's end."""


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


PutOff = Callable[[list[bytes]], "Sequence[Slot | None]"]
"""Returns for each piece None to hand it out at once, else the slot that keeps it until a later one takes its place."""


def telling_pieces(
    stream: Readable, ends: Ends, put_off: PutOff | None = None, *, number: int = 1, offset: int = 0
) -> Iterator[Piece]:
    """Yield the pieces of *stream* in which *ends* finds something, in order, but for those that are *put_off*.

    *number* and *offset* say where the stream begins.
    """
    search = _Search(ends, put_off or (lambda pieces: [None] * len(pieces)), number, offset)
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
    search.flush()


def _grown(long: _Long | None, rest: bytes, ends: Ends) -> tuple[_Long | None, bytes]:
    if long is None and len(rest) > LONGEST:
        return _Long(rest, ends), b""
    return long, rest


def _first_break(chunk: bytes, start: int = 0) -> int:
    newline = chunk.find(b"\n", start)
    end = newline if newline >= 0 else len(chunk)
    back = chunk.find(b"\r", start, end)
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


class _Held(NamedTuple):
    """A block whose put-off pieces are not yet given to their slots, and where the search stood at its beginning."""

    block: bytes
    begin: int
    number: int
    line: int
    at: int
    before: bytes


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
        self._put: dict[Slot | None, int] = {}
        self._held: list[_Held] = []
        self._bytes_held = 0

    def long_piece(self, long: _Long) -> Iterator[Piece]:
        """Yield the piece that has gone by, when it tells."""
        if long.tells:
            raw = _shortened(long.head, long.tail)
            yield Piece(raw, self._number, self._line, self._at, self._before)
        self._at += long.length
        self._before = long.tail[-BEFORE:]

    def block(self, block: bytes, begin: int, end: int) -> Iterator[Piece]:
        """Yield the telling pieces in *block* from *begin*, where a piece begins, up to *end*, where one ends."""
        ends = self._ends(block) if end > begin else ()
        # A piece that ends where the block begins has gone by already; one that ends after it is not whole yet.
        stops = ends[bisect_right(ends, begin) : bisect_right(ends, end)]
        # What is done for each piece is done in loops without calls: logs full of failures have a million of them.
        floors = (begin, *stops)
        if block.find(b"\r", begin, end) < 0:
            starts = [block.rfind(b"\n", floor, stop) + 1 or begin for floor, stop in zip(floors, stops, strict=False)]
        else:
            starts = [_start(block, floor, stop) or begin for floor, stop in zip(floors, stops, strict=False)]
        pieces = [block[start:stop] for start, stop in zip(starts, stops, strict=True)]
        if _may_hold_long(block, begin, end):
            pieces = [_kept(piece) for piece in pieces]
        slots = self._put_off(pieces)
        places = _Places(block, begin, self._number, self._line, self._at - begin, self._line_ends)
        held = _Held(block, begin, self._number, self._line, self._at - begin, self._before)
        # All in one go, and those to be handed out now under None: most blocks hold few of them.
        self._put.update(zip(slots, map(self._bytes_held.__add__, starts), strict=True))
        if self._put.pop(None, None) is not None:
            now = [(start, raw) for start, raw, slot in zip(starts, pieces, slots, strict=True) if slot is None]
            for start, raw in now:
                yield Piece(raw, *places.of(start), _text_before(self._before, block, begin, start))
        if stops:
            self._held.append(held)
            self._bytes_held += len(block)
            if self._bytes_held >= HELD:
                self.flush()
        self._number, self._line, self._at = places.of(end)
        self._before = _text_before(self._before, block, begin, end)

    def flush(self) -> None:
        """Give each slot the last of its pieces: of a burst's thousands in a megabyte one is worth the work."""
        held = iter(self._held)
        block, places, text, base, end, begin = b"", _Places(b"", 0, 0, 0, 0, self._line_ends), b"", 0, 0, 0
        put = [(place, slot) for slot, place in self._put.items() if slot]
        for place, slot in sorted(put, key=itemgetter(0)):
            while place >= end:
                block, begin, number, line, at, text = next(held)
                base, end = end, end + len(block)
                places = _Places(block, begin, number, line, at, self._line_ends)
            start = place - base
            raw = _kept(block[start : _first_break(block, start)])
            slot.last = raw, *places.of(start), _text_before(text, block, begin, start)[-BEFORE_LAST:]
        self._put.clear()
        self._held.clear()
        self._bytes_held = 0


def _start(block: bytes, floor: int, stop: int) -> int:
    return max(block.rfind(b"\n", floor, stop), block.rfind(b"\r", floor, stop)) + 1


def _may_hold_long(block: bytes, begin: int, end: int) -> bool:
    """False when no piece in *block* is longer than LONGEST: quicker than to ask each."""
    return any(block.find(b"\n", at, at + KEPT) < 0 for at in range(begin, end - KEPT, KEPT))


def _kept(piece: bytes) -> bytes:
    return piece if len(piece) <= LONGEST else _shortened(piece)


def _text_before(earlier: bytes, block: bytes, begin: int, start: int) -> bytes:
    if start - begin >= BEFORE:
        return block[start - BEFORE : start]
    return (earlier + block[begin:start])[-BEFORE:]


class _Places:
    """Tells numbers and offsets of places in one block, asked for in rising order."""

    def __init__(self, block: bytes, begin: int, number: int, line: int, at: int, line_ends: LineEnds) -> None:
        self._block = block
        self._counted = begin
        self._number = number
        self._line = line
        self._at = at
        self._line_ends = line_ends

    def of(self, start: int) -> tuple[int, int, int]:
        """Return the number of the line in which *start* lies, that line's offset, and the offset of *start*."""
        if start > self._counted:
            newline = self._block.rfind(b"\n", self._counted, start)
            if newline >= 0:
                self._line = self._at + newline + 1
                self._number += self._line_ends.count(self._block, self._counted, start)
            self._counted = start
        return self._number, self._line, self._at + start
