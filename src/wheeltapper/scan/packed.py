"""Logs that were packed by rotation: gzip and Zstandard, read as streams in constant memory."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Callable
from typing import Any, cast

from wheeltapper.scan.blocks import BLOCK, Readable

_log = logging.getLogger(__name__)

GZIP = b"\x1f\x8b"
ZSTD = b"\x28\xb5\x2f\xfd"

WINDOW_MAX = 32 << 20
"""Bytes of the past that a frame of Zstandard may make us keep: its levels up to 19 use no more than a quarter."""


def unpacked(stream: Readable) -> Readable:
    """Return what *stream* holds, unpacked where its first bytes say that it is gzip or Zstandard.

    A packed log that breaks off or is damaged is read up to there: the node that wrote it may have died.
    """
    head = b""
    while len(head) < len(ZSTD) and (more := stream.read(BLOCK)):
        head += more
    whole = Rejoined(head, stream)
    if head.startswith(GZIP):
        return _gzip(whole)
    if head.startswith(ZSTD):
        return _zstd(whole)
    return whole


class Rejoined:
    """A stream whose first bytes were read already."""

    def __init__(self, head: bytes, rest: Readable) -> None:
        """Put *head* back before *rest*."""
        self._head = head
        self._rest = rest

    def read(self, size: int = -1, /) -> bytes:
        """Return up to *size* bytes, none at the end."""
        if not self._head or size < 0:
            head, self._head = self._head, b""
            return head + self._rest.read(size)
        head, self._head = self._head[:size], self._head[size:]
        return head


# These modules are loaded here because most logs are not packed.


def _gzip(packed: Readable) -> Readable:
    import gzip  # noqa: PLC0415

    # One step at a time: a longer read that fails would lose what it had unpacked before.
    read = gzip.GzipFile(fileobj=cast("Any", packed), mode="rb").read1
    return _Breakable(read, (EOFError, zlib.error, gzip.BadGzipFile))


def _zstd(packed: Readable) -> Readable:
    import zstandard  # noqa: PLC0415

    unpacker = zstandard.ZstdDecompressor(max_window_size=WINDOW_MAX)
    read = unpacker.stream_reader(cast("Any", packed), read_across_frames=True).read1
    return _Breakable(read, (zstandard.ZstdError,))


class _Breakable:
    """A stream that ends where reading on fails."""

    def __init__(self, read: Callable[[int], bytes], damage: tuple[type[Exception], ...]) -> None:
        self._read = read
        self._damage = damage
        self._ended = False

    def read(self, size: int, /) -> bytes:
        if self._ended:
            return b""
        try:
            return self._read(size)
        except self._damage as error:
            _log.warning("A packed log is damaged or breaks off, and was read up to there: %s", error)
            self._ended = True
            return b""
