"""What a machine is asked by a system call and not by a file: all in one place, so that tests can answer instead."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Usage:
    """How full a file system is (bytes, inodes; for those who are not root), and how long it took to say so."""

    size: int
    free: int
    inodes: int
    inodes_free: int
    seconds: float


def usages(paths: Iterable[Path], patience_s: float) -> dict[Path, Usage | None]:
    """Return how full the file systems at *paths* are; None for one that says nothing within *patience_s* seconds.

    One that answers with an error is left out. Each is asked in a thread of its own, which hangs with it: only a
    process that may be killed should ask.
    """
    found: dict[Path, Usage | None] = dict.fromkeys(paths)
    failed: set[Path] = set()

    def ask(path: Path) -> None:
        try:
            found[path] = _usage(path)
        except OSError:
            failed.add(path)

    threads = [threading.Thread(target=ask, args=(path,), daemon=True) for path in found]
    for thread in threads:
        thread.start()
    until = time.monotonic() + patience_s
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
    return {path: usage for path, usage in list(found.items()) if path not in failed}


def _usage(path: Path) -> Usage:
    begun = time.monotonic()
    told = os.statvfs(path)
    return Usage(
        told.f_blocks * told.f_frsize,
        told.f_bavail * told.f_frsize,
        told.f_files,
        told.f_favail,
        time.monotonic() - begun,
    )


STA_UNSYNC = 0x40
"""The bit of adjtimex's status that says that nobody keeps the clock right (adjtimex(2))."""

STA_NANO = 0x2000
"""The bit that says that the offset is in nanoseconds, else in microseconds."""


class _Timex(ctypes.Structure):
    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 256),
    )


def kernel_clock() -> tuple[bool, float]:
    """Return whether the kernel's clock is kept right, and how many seconds it is still off by.

    Raises:
        OSError: the kernel does not tell.
    """
    told = _Timex()
    if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(told)) < 0:
        raise OSError(ctypes.get_errno(), "adjtimex failed")
    unit = 1e9 if told.status & STA_NANO else 1e6
    return not told.status & STA_UNSYNC, told.offset / unit


def resolve(name: str) -> float:
    """Return how many seconds it took to resolve *name*.

    Raises:
        OSError: it does not resolve.
    """
    begun = time.monotonic()
    socket.getaddrinfo(name, None)
    return time.monotonic() - begun


SIOCETHTOOL = 0x8946
ETHTOOL_GSSET_INFO = 0x37
ETHTOOL_GSTRINGS = 0x1B
ETHTOOL_GSTATS = 0x1D
ETH_SS_STATS = 1
NAME_BYTES = 32
"""Numbers of linux/sockios.h and linux/ethtool.h, which never change."""


def nic_statistics(interface: str) -> dict[str, int]:
    """Return what the driver of *interface* counts, as ``ethtool -S`` shows it.

    Raises:
        OSError: there is no such interface, or its driver counts nothing.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:

        def ask(request: bytearray) -> bytearray:
            buffer = (ctypes.c_char * len(request)).from_buffer(request)
            asked = struct.pack("16sP16x", interface.encode(), ctypes.addressof(buffer))
            fcntl.ioctl(control, SIOCETHTOOL, asked)
            return request

        info = ask(bytearray(struct.pack("=IIQI", ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_STATS, 0)))
        _, _, known, count = struct.unpack("=IIQI", info)
        if not known or not count:
            raise OSError(f"the driver of {interface} counts nothing")
        strings = ask(bytearray(struct.pack("=III", ETHTOOL_GSTRINGS, ETH_SS_STATS, count)) + bytes(NAME_BYTES * count))
        values = ask(bytearray(struct.pack("=II", ETHTOOL_GSTATS, count)) + bytes(8 * count))
    names = (strings[12 + NAME_BYTES * place :][:NAME_BYTES].split(b"\0")[0].decode("ascii") for place in range(count))
    return dict(zip(names, struct.unpack(f"={count}Q", values[8:]), strict=True))
