"""The system calls of checks, made for real, and the answers that this machine may not be able to give."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import threading
from pathlib import Path

import pytest

from wheeltapper.checks import calls


def test_a_file_system_says_how_full_it_is(tmp_path):
    told = calls.usages([tmp_path], 10.0)[tmp_path]

    assert told.size >= told.free > 0
    assert told.seconds < 10.0


def test_a_place_that_is_not_there_is_left_out(tmp_path):
    assert calls.usages([tmp_path / "nosuch"], 10.0) == {}


def test_one_that_hangs_keeps_no_other_from_answering(tmp_path, monkeypatch):
    server_is_back = threading.Event()
    real = os.statvfs

    def statvfs(path):
        if path.name == "hangs":
            server_is_back.wait(60.0)
        return real(path)

    monkeypatch.setattr(os, "statvfs", statvfs)
    (tmp_path / "hangs").mkdir()
    try:
        told = calls.usages([tmp_path / "hangs", tmp_path], 0.3)
    finally:
        server_is_back.set()

    assert told[tmp_path / "hangs"] is None
    assert told[tmp_path] is not None


def test_the_kernel_says_whether_its_clock_is_kept():
    is_kept, offset_s = calls.kernel_clock()

    assert isinstance(is_kept, bool)
    assert abs(offset_s) < 60.0


def test_this_machine_resolves_its_own_name():
    assert calls.resolve("localhost") >= 0.0


def test_an_interface_that_is_not_there_counts_nothing():
    with pytest.raises(OSError, match="No such device"):
        calls.nic_statistics("nosuch0")


def test_the_drivers_of_this_machine_are_understood():
    told = {}
    for folder in Path("/sys/class/net").glob("*/device"):
        try:
            told[folder.parent.name] = calls.nic_statistics(folder.parent.name)
        except OSError:
            continue  # a driver without counters
    if not told:
        pytest.skip("no interface of this machine has a driver that counts")
    for counters in told.values():
        assert all(name and name.isprintable() and value >= 0 for name, value in counters.items())


def test_counters_are_read_as_the_kernel_lays_them_out(monkeypatch):
    counted = {"rx_crc_errors_phy": 7, "a_name_of_exactly_thirty_two_byt": 1 << 63}

    def ioctl(_fd, number, asked):
        assert number == calls.SIOCETHTOOL
        name, address = struct.unpack("16sP16x", asked)
        assert name.rstrip(b"\0") == b"eth9"
        command = ctypes.c_uint32.from_address(address).value
        if command == calls.ETHTOOL_GSSET_INFO:
            answer, place = struct.pack("=QI", 1 << calls.ETH_SS_STATS, len(counted)), 8
        elif command == calls.ETHTOOL_GSTRINGS:
            answer, place = b"".join(name.encode().ljust(32, b"\0") for name in counted), 12
        else:
            assert command == calls.ETHTOOL_GSTATS
            answer, place = struct.pack("=2Q", *counted.values()), 8
        ctypes.memmove(address + place, answer, len(answer))
        return asked

    monkeypatch.setattr(fcntl, "ioctl", ioctl)

    assert calls.nic_statistics("eth9") == counted
