"""Packed logs are read like others, and a damaged one is read as far as it goes."""

from __future__ import annotations

import gzip
import io
import logging

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from wheeltapper.scan.packed import GZIP, ZSTD, unpacked

TEXT = b"".join(b"step %d of many, all quite alike\n" % number for number in range(50_000))
PACKERS = {"gzip": gzip.compress, "zstd": zstandard.ZstdCompressor().compress}


def read(data: bytes, size: int = 1 << 18) -> bytes:
    stream = unpacked(io.BytesIO(data))
    return b"".join(iter(lambda: stream.read(size), b""))


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
@pytest.mark.parametrize("size", [1000, 1 << 18])
def test_members_in_a_row_are_one_log(pack, size):
    assert read(pack(TEXT) + pack(b"the end\n"), size) == TEXT + b"the end\n"


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_no_read_unpacks_more_than_it_was_asked_for(pack):
    stream = unpacked(io.BytesIO(pack(bytes(64 << 20))))
    assert {len(part) <= 1 << 16 for part in iter(lambda: stream.read(1 << 16), b"")} == {True}


@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
def test_a_log_that_breaks_off_is_read_up_to_there(pack):
    packed = pack(TEXT + bytes(range(256)) * 4000)
    part = read(packed[: len(packed) * 3 // 4])
    assert part
    assert (TEXT + bytes(range(256)) * 4000).startswith(part)


def test_damage_is_told_once_and_costs_only_what_follows(caplog):
    packed = gzip.compress(TEXT)
    with caplog.at_level(logging.WARNING):
        assert read(packed + gzip.compress(b"more")[:6] + b"\xff" * 90) == TEXT
    assert [record.message.split(":")[0] for record in caplog.records] == [
        "A packed log is damaged or breaks off, and was read up to there"
    ]


@pytest.mark.parametrize("text", [b"", b"x", b"plain text\n", GZIP[:1]])
def test_what_is_not_packed_passes_as_it_is(text):
    assert read(text) == text


@given(st.sampled_from([GZIP, ZSTD, GZIP + b"\x08\x00", ZSTD + b"\x04"]), st.binary(max_size=200))
def test_no_bytes_break_the_unpacking(head, data):
    assert len(read(head + data)) < 1 << 20
