"""Times are read in the forms in which programs write them, and an unknown year is an unknown time."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheeltapper.scan.blocks import BEFORE, Piece
from wheeltapper.scan.clock import TIME_WITHIN, Clock, last_time_of, time_of

NOON = datetime(2025, 11, 29, 12, 1, 3, tzinfo=timezone.utc).timestamp()


@pytest.mark.parametrize(
    "text",
    [
        "2025-11-29 12:01:03 step",
        "2025-11-29T12:01:03Z",
        "[2025-11-29 12:01:03]",
        "2025-11-29T13:01:03+01:00 x",
        "2025-11-29T07:31:03-0430 x",
        "2025-11-29_12:01:03",
        "2025/11/29 12:01:03 main.go:7:",
        "E20251129 12:01:03 4242 nccl.cc:1]",
        "11/29/2025 12:01:03 - INFO - __main__ -",
        '10.0.0.1 - - [29/Nov/2025:12:01:03 +0000] "GET /" 200',
        "Sat Nov 29 12:01:03 2025",
        "Sat Nov 29 12:01:03 UTC 2025",
        "[Sat Nov  29 12:01:03 2025] usb",
        "ratio 10:11:12 at 2025-11-29 12:01:03",
        "00:00:07 elapsed" + " " * 40 + "2025-11-29 12:01:03",
    ],
)
def test_a_time_is_read_in_every_form(text):
    assert time_of(text, timezone.utc) == NOON


@pytest.mark.parametrize(
    ("text", "after"), [("2025-11-29 12:01:03,250 x", 0.25), ("2025-11-29T12:01:03.000001Z", 1e-6)]
)
def test_fractions_count(text, after):
    assert time_of(text, timezone.utc) == pytest.approx(NOON + after, abs=1e-7)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "12:01:03",
        "E1129 12:01:03.123456 4242 x.cc:1]",
        "Nov 29 12:01:03 n1 kernel:",
        "2025-13-29 12:01:03",
        "1:2:3",
    ],
)
def test_what_tells_no_year_or_no_real_day_is_unknown(text):
    assert time_of(text, timezone.utc) is None


def test_without_an_offset_the_zone_counts():
    assert time_of("2025-11-29 12:01:03", timezone(timedelta(hours=2))) == NOON - 7200


def test_the_first_and_the_last_time_of_a_text():
    text = "2025-11-29 12:01:03 a\n2025-11-29 12:01:05 b\n12:01:09 c\n"
    assert time_of(text, timezone.utc) == NOON
    assert last_time_of(text, timezone.utc) == NOON + 2


def piece(data: bytes, start: int, end: int) -> Piece:
    return Piece(data[start:end], 1, start, start, data[max(0, start - BEFORE) : start])


def test_a_line_without_a_time_has_that_of_the_text_before_it():
    data = b"2025-11-29 12:01:03 step\n" + b"Error\n" * 1000
    clock = Clock(timezone.utc)
    starts = range(25, len(data), 6)
    times = [clock.at(piece(data, start, start + 5)) for start in starts]
    near = [start <= 25 + BEFORE for start in starts]
    assert times == [NOON if each else None for each in near]


def test_a_time_that_stands_too_far_in_a_line_to_be_its_own_is_that_of_the_next_one():
    data = b"Error" + b" x" * TIME_WITHIN + b" 2025-11-29 12:01:03\nError\n"
    clock, second = Clock(timezone.utc), data.index(b"\n") + 1
    assert [clock.at(piece(data, *span)) for span in ((0, second - 1), (second, second + 5))] == [None, NOON]


@pytest.mark.parametrize(
    ("line", "after"),
    [
        (b"[rank3]:[E1129 12:11:05.500000123 ProcessGroupNCCL.cpp:629] [Rank 3] x\n", 602.5),
        (b"W1129 12:01:33.402000 88001 torch/distributed/elastic/api.py:897] x\n", 30.0),
        (b"[rank0]:[E101 12:01:03.000000001 ProcessGroupNCCL.cpp:629] x\n", 33 * 86400.0),  # New Year lies between
        (b"codec H264 12:30:00 x\n", 0.0),
    ],
)
def test_glogs_stamp_is_of_the_year_that_the_text_above_tells(line, after):
    data = b"2025-11-29 12:01:03 step\n" + line
    assert Clock(timezone.utc).at(piece(data, 25, len(data))) == pytest.approx(NOON + after)
    assert Clock(timezone.utc).at(piece(line, 0, len(line))) is None


@given(st.text())
def test_no_text_breaks_the_clock(text):
    assert time_of(text, timezone.utc) is None or ":" in text


@given(st.integers(0, 4_000_000_000_000_000))
def test_what_iso_writes_is_read(microseconds):
    utc = datetime(1971, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=microseconds)
    assert time_of(f"x {utc.isoformat()} y", None) == pytest.approx(utc.timestamp(), abs=1e-5)
