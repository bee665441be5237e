"""Pieces of a stream: each is found once, with its true place, however its bytes arrive."""

from __future__ import annotations

import io
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from wheeltapper.scan import blocks
from wheeltapper.scan.blocks import BLOCK, KEPT, Slot, telling_pieces


class Trickle:
    """A pipe that hands out a few bytes at a time, the sizes in turn."""

    def __init__(self, data: bytes, *sizes: int) -> None:
        self._data = io.BytesIO(data)
        self._sizes = list(sizes)

    def read(self, size: int, /) -> bytes:
        self._sizes.append(self._sizes.pop(0))
        return self._data.read(min(size, self._sizes[-1]))


def ends(block: bytes) -> list[int]:
    return [found.end() for found in re.finditer(rb"[^\r\n]*xyz[^\r\n]*", block)]


def places(data: bytes, *sizes: int, put_off=None):
    stream = Trickle(data, *sizes) if sizes else io.BytesIO(data)
    return list(telling_pieces(stream, ends, put_off))


def expected(data: bytes):
    """The same by the plainest means: split, look, count."""
    at = 0
    for number, line in enumerate(data.split(b"\n"), start=1):
        start = at
        for raw in line.split(b"\r"):
            if b"xyz" in raw:
                yield raw, number, at, start, data[max(0, start - blocks.BEFORE) : start]
            start += len(raw) + 1
        at += len(line) + 1


PARTS = st.lists(st.sampled_from([b"xyz", b"\n", b"a", b"\r", b"\r\n", b"\xff", b"xy", b"z"]))


@given(PARTS, st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_every_telling_piece_is_found_once_with_its_place(parts, sizes):
    data = b"".join(parts)
    assert places(data, *sizes) == list(expected(data)) == places(data)


SMALL = {"BLOCK": 64, "KEPT": 8, "LONGEST": 16, "BEFORE": 8, "BEFORE_LAST": 8, "LITERAL_MAX": 3}


@settings(max_examples=300)
@given(
    st.lists(st.sampled_from([b"xyz", b"\n", b"aaaaaaa", b"\r", b"bbbbbbbbbbbbb", b"xy", b"z", b"0123456789" * 4])),
    st.lists(st.integers(1, 70), min_size=1, max_size=4),
)
def test_long_pieces_are_cut_alike_however_they_arrive(parts, sizes):
    data = b"".join(parts)
    real = {name: getattr(blocks, name) for name in SMALL}
    try:
        for name, value in SMALL.items():
            setattr(blocks, name, value)
        whole = places(data)
        assert places(data, *sizes) == whole
        assert places(data, 10**6) == whole
    finally:
        for name, value in real.items():
            setattr(blocks, name, value)
    plain = [
        (raw if len(raw) <= 16 else raw[:8] + b"\n" + raw[-8:], number, offset, start)
        for raw, number, offset, start, _before in expected(data)
    ]
    assert [each[:4] for each in whole] == plain


def test_a_piece_of_megabytes_keeps_both_ends_and_the_places_after_it():
    dump = b"xyz" + b"-" * 3 * BLOCK + b"end"
    (first, second) = places(b"quiet\n" + dump + b"\nxyz\n")
    assert first.raw == dump[:KEPT] + b"\n" + dump[-KEPT:]
    assert (first.number, first.offset) == (2, 6)
    assert (second.number, second.offset) == (3, 7 + len(dump))


@given(PARTS, st.lists(st.integers(1, 9), min_size=1, max_size=4))
def test_a_slot_keeps_the_last_piece_that_was_put_off_to_it(parts, sizes):
    data = b"".join(parts)
    slot, other = Slot(), Slot()

    def put_off(pieces):
        return [slot if b"a" in raw else other if b"z" in raw[3:] else None for raw in pieces]

    found = places(data, *sizes, put_off=put_off)
    wanted = list(expected(data))
    assert found == [each for each in wanted if b"a" not in each[0] and b"z" not in each[0][3:]]
    for kept, of_slot in ((slot, lambda raw: b"a" in raw), (other, lambda raw: b"a" not in raw and b"z" in raw[3:])):
        assert kept.last == next((each for each in reversed(wanted) if of_slot(each[0])), None)
