"""However line ends are counted, the count is the same."""

from __future__ import annotations

import sys

from hypothesis import given
from hypothesis import strategies as st

from wheeltapper.scan import line_ends
from wheeltapper.scan.line_ends import LARGE, LineEnds


@given(st.lists(st.sampled_from([b"\n", b"a", b"\r", b"\x8a", b"\x0b"])).map(b"".join), st.data())
def test_both_ways_count_the_same(block, data):
    start = data.draw(st.integers(0, len(block)))
    end = data.draw(st.integers(start, len(block)))
    for way in (line_ends._plain, line_ends._fastest()):
        assert way(block, start, end) == block[start:end].count(b"\n")


def test_a_long_stream_is_counted_right_on_both_sides_of_the_change(monkeypatch):
    monkeypatch.setattr(line_ends, "LONG", 3 * LARGE)
    block = b"step 1\n" * LARGE
    ends = LineEnds()
    assert [ends.count(block, 7, len(block)) for _ in range(3)] == [LARGE - 1] * 3
    assert ends.count(block, 7, 21) == 2


def test_without_numpy_the_plain_way_stays(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", None)
    line_ends._fastest.cache_clear()
    try:
        assert line_ends._fastest() is line_ends._plain
    finally:
        line_ends._fastest.cache_clear()
