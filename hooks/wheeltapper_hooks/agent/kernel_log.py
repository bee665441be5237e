"""Reads the kernel log: the character device, or a plain file that grows in its place.

The device hands out one record a read and ends in EAGAIN; when the kernel has written over records that were not read
yet, it says EPIPE once and goes on with the oldest that it still has.
Where the path is a socket, :mod:`wheeltapper_hooks.kernel_log_opener` stands behind it and hands over the open log.
"""

from __future__ import annotations

import logging
import os
import socket
import stat
from pathlib import Path

from wheeltapper_hooks.agent.growth import Growth
from wheeltapper_hooks.kernel_log_opener import NO_LOG, OPEN

log = logging.getLogger(__name__)

LINES_A_LOOK = 5_000
"""Lines read before the event loop gets a turn: about 50 ms of work."""

CHUNK = 1 << 16
"""Bytes of one read: the kernel's longest record is 8 KiB, and the device refuses a smaller buffer."""


HANDED_S = 5.0
"""Seconds to wait for the log to be handed over; it takes a millisecond."""


class KernelLog:
    """An open kernel log. ``wakes`` is readable when there may be more, or None where nothing tells of that."""

    def __init__(self, path: Path) -> None:
        """Open the log at *path*; raise ``OSError`` when that is not possible."""
        self.path = path
        self._is_handed_over = path.is_socket()
        self.fd = _receive(path) if self._is_handed_over else os.open(path, OPEN)
        self.is_device = stat.S_ISCHR(os.fstat(self.fd).st_mode)
        self._rest = b""
        self._growth = self._listen()

    @property
    def wakes(self) -> int | None:
        """What can be waited on: the device itself, or what is heard of a plain file."""
        if self.is_device:
            return self.fd
        return self._growth.fd if self._growth else None

    def close(self) -> None:
        """Close the log."""
        os.close(self.fd)
        if self._growth is not None:
            self._growth.close()

    def _listen(self) -> Growth | None:
        if self.is_device:
            return None
        try:
            return Growth(self.fd)
        except OSError as error:
            log.info("Nothing tells when %s grows (%s), so it is looked at many times a second.", self.path, error)
            return None

    def read(self) -> tuple[list[str], bool]:
        """Return the lines written since the last call, and whether there is nothing more to read now.

        Raises:
            OSError: the log can no longer be read.
        """
        if self._growth is not None:
            self._growth.take()
        self._restart_if_truncated()
        lines: list[str] = []
        while len(lines) < LINES_A_LOOK:
            try:
                chunk = os.read(self.fd, CHUNK)
            except BlockingIOError:
                return lines, True
            except BrokenPipeError:
                log.warning("The kernel log ran over: lines were lost before they could be read.")
                continue
            if not chunk:
                if self._follow_rotation():
                    continue
                return lines, True
            *whole, self._rest = (self._rest + chunk).split(b"\n")
            lines += [line.decode("utf-8", "replace") for line in whole]
        return lines, False

    def _follow_rotation(self) -> bool:
        """Go on with the file that now bears the name, once this one, a plain file, was read to its end."""
        if self.is_device or self._is_handed_over:
            return False
        try:
            new = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except FileNotFoundError:
            return False  # it was moved away, and the next one is not there yet
        if os.path.samestat(os.fstat(new), os.fstat(self.fd)):
            os.close(new)
            return False
        self.close()
        self.fd, self._rest = new, b""
        self._growth = self._listen()
        return True

    def _restart_if_truncated(self) -> None:
        if not self.is_device and os.fstat(self.fd).st_size < os.lseek(self.fd, 0, os.SEEK_CUR):
            os.lseek(self.fd, 0, os.SEEK_SET)
            self._rest = b""


def _receive(path: Path) -> int:
    """Return the open log that is handed over at the socket *path*; raise ``OSError`` when there is none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.settimeout(HANDED_S)
        door.connect(str(path))
        said, files, _, _ = socket.recv_fds(door, 4096, 1)
    if not files:
        raise OSError(said.removeprefix(NO_LOG).decode("utf-8", "replace") or f"nothing was handed over at {path}")
    os.set_inheritable(files[0], False)
    return files[0]
