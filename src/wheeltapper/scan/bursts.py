"""Bursts: the same words thousands of times. What says nothing new is not read in full, however often it comes.

Lines that differ in digits alone have one shape. Of each shape and speaker (the rank, host or GPU that the line names)
the first few are read and the last one; besides, each line with a number that its place in the shape has not shown
before, because codes are numbers. A place that shows ever new numbers counts steps or time, and says nothing.
What is read depends on the lines and their order, never on engines or on how the bytes arrive.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from wheeltapper.scan.blocks import Piece, Slot
from wheeltapper.scan.finding import KEEP_FIRST, KINDS_MAX

CODES_MAX = 256
"""Different numbers in one place that are told apart: exit codes and signals have no more, Xids fewer."""

SHAPE_BYTES = 1024
"""A longer line is always read: at its length that is cheap for each byte."""

SETTLED_MAX = 65_536
"""Combinations of numbers in all shapes that are known to be no news."""

VALUES_MAX = 262_144
"""Numbers in all places that are remembered; beyond it, each line with another one is read."""

LAYOUTS_MAX = 16_384
"""Layouts whose numbers are found without a search: lines of one shape whose numbers are of the same lengths."""

SHAPES_MAX = 8192
"""Shapes that are remembered; lines of further ones are always read."""

_DIGITS = b"0123456789"
_MASK = bytes.maketrans(b"123456789", b"000000000")
_DIGITS_ONLY = bytes(byte if byte in _DIGITS else 0x20 for byte in range(256))

_NUMBER = re.compile(rb"\d+")
_NUMBERS = re.compile(
    rb"""
      (?P<names>                                                     # who speaks, or is spoken of:
        [Rr](?:ank|ANK)[ ]?[:=\]#]?[ ]?\[?\d+ | ^[ ]{0,5}\d+:[ ] | ^\[\d+,\d+\]     # ranks
      | (?<![\d.])\d+\.\d+\.\d+\.\d+(?![\d.])                       # addresses of hosts
      | [A-Za-z][-_]?\d+(?:-\d+)*(?=[\s:.,;()<>|=/\[\]]|$)           # n17, gpu-node-3, cuda:1
      )
    | (?P<mute>                                                      # what tells no two failures apart:
        \d+(?:[-/.]\d+){2}(?:[T _:-]*\d+(?::\d+)+(?:[.,]\d+)?)?     # dates, with a time of day
      | \d+(?::\d\d)+(?:[.,]\d+)?                                   # times of day
      | 0x[0-9a-fA-F]+                                               # addresses of memory
      | \d+\.\d+(?:[eE][+-]?\d+)?                                   # measures
      )
    """,
    re.VERBOSE,
)
"""The meaning of numbers, as far as their surroundings tell; any other number may be a code."""

_Key = bytes | tuple[bytes, ...]


class _Voice(Slot):
    """One speaker of one shape: how often it was read, and the last line that was not."""

    __slots__ = ("times",)

    def __init__(self) -> None:
        super().__init__()
        self.times = 0


class _Shape:
    """What has been read of one shape. The *width* is how many numbers a line of it holds."""

    __slots__ = ("codes", "crowd", "heard", "settled", "speaker", "telling", "width")

    def __init__(self, raw: bytes) -> None:
        known = list(_NUMBERS.finditer(raw))
        naming = [found.span() for found in known if found["names"]]
        numbers = [found.start() for found in _NUMBER.finditer(raw)]
        self.width = len(numbers)
        self.speaker = [place for place, start in enumerate(numbers) if _within(start, naming)]
        explained = [found.span() for found in known]
        self.codes = {place: set[bytes]() for place, start in enumerate(numbers) if not _within(start, explained)}
        self.heard: dict[_Key, _Voice] = {}
        self.crowd = Slot()
        self._begin_settling()

    def _begin_settling(self) -> None:
        self.telling = sorted([*self.speaker, *self.codes])
        self.settled: dict[_Key, _Voice] = {}

    def news(self, numbers: Sequence[bytes]) -> list[int]:
        """Return the places in which *numbers* hold a code that was never seen there."""
        return [place for place, seen in self.codes.items() if numbers[place] not in seen]

    def note(self, numbers: Sequence[bytes], places: Sequence[int]) -> None:
        """Take note of the codes in *places*; one with too many is a counter."""
        for place in places:
            self.codes[place].add(numbers[place])
            if len(self.codes[place]) >= CODES_MAX:
                del self.codes[place]
                self._begin_settling()


def _slices(raw: bytes, telling: Sequence[int]) -> list[slice]:
    """Return where the *telling* numbers of *raw* stand; neighbours in one: the words between them are of the shape."""
    spans = [found.span() for found in _NUMBER.finditer(raw)]
    merged: list[slice] = []
    for place in telling:
        start, stop = spans[place]
        if place - 1 in telling:
            start = merged.pop().start
        merged.append(slice(start, stop))
    return merged


def _picker(places: Sequence[Any]) -> Callable[[Any], _Key]:
    return itemgetter(*places) if places else lambda _of: b""


def _within(position: int, spans: Sequence[tuple[int, int]]) -> bool:
    return any(start <= position < end for start, end in spans)


class Bursts:
    """Says of each line of one log whether it must be read; remembers a bounded number of shapes and speakers."""

    def __init__(self) -> None:
        """Begin a log."""
        self._shapes: dict[bytes, _Shape] = {}
        self._layouts: dict[bytes, tuple[Callable[[bytes], _Key], Callable[[_Key], _Voice | None]]] = {}
        self._voices = self._values = self._settled = 0

    def put_off(self, lines: Sequence[bytes]) -> list[Slot | None]:
        """Return for each of *lines* None when it must be read now, else the slot for the last line of its burst."""
        layout_of, weigh = self._layouts.get, self._weigh
        return [
            (layout and layout[1](layout[0](raw))) or weigh(raw)
            for raw in lines
            for layout in (layout_of(raw.translate(_MASK)),)
        ]

    def _weigh(self, raw: bytes) -> Slot | None:
        if len(raw) > SHAPE_BYTES:
            return None
        numbers = raw.translate(_DIGITS_ONLY).split()
        shape = self._shape(raw, len(numbers))
        if shape is None:
            return None
        who = tuple([numbers[place] for place in shape.speaker])
        voice = shape.heard.get(who)
        if voice is None:
            if self._voices >= KINDS_MAX:
                return shape.crowd
            self._voices += 1
            voice = shape.heard[who] = _Voice()
        news = shape.news(numbers)
        if news and self._values < VALUES_MAX:
            self._values += len(news)
            shape.note(numbers, news)
        if news or voice.times < KEEP_FIRST:
            voice.times += 1
            return None
        self._settle(raw, shape, voice)
        return voice

    def _shape(self, raw: bytes, width: int) -> _Shape | None:
        """Return the shape of *raw*; None when it is new, or cannot be remembered."""
        words = raw.translate(None, _DIGITS)
        shape = self._shapes.get(words)
        if shape is not None and shape.width != width:
            words += b"%d" % width
            shape = self._shapes.get(words)
        if shape is None and len(self._shapes) < SHAPES_MAX:
            self._shapes[words] = _Shape(raw)
        return shape

    def _settle(self, raw: bytes, shape: _Shape, voice: _Voice) -> None:
        """Remember that the numbers of *raw* need no second look: a short cut, which changes no answer."""
        if self._settled >= SETTLED_MAX:
            return
        self._settled += 1
        pick = _picker(_slices(raw, shape.telling))
        shape.settled[pick(raw)] = voice
        layout = raw.translate(_MASK)
        if layout in self._layouts or len(self._layouts) < LAYOUTS_MAX:
            self._layouts[layout] = pick, shape.settled.get

    def last_ones(self) -> list[Piece]:
        """Return the last line of each burst, as far as it was put off, in the order of the log."""
        slots = [slot for shape in self._shapes.values() for slot in (*shape.heard.values(), shape.crowd)]
        return sorted((Piece(*slot.last) for slot in slots if slot.last), key=lambda piece: piece.start)
