"""Wakes whoever follows a plain file when it grows: Linux's inotify, through the C library that Python runs on.

Three calls; a package for them would be one more to pin and to trust on every node.
"""

from __future__ import annotations

import ctypes
import os

MODIFY = 0x02
"""IN_MODIFY of linux/inotify.h: written to, or cut off."""

ROOM = 1 << 14
"""Bytes of one read: the kernel merges events that say the same, so that there are few."""


class Growth:
    """What is heard of the open file *fd*. ``fd`` can be waited on: readable means that the file may have grown."""

    def __init__(self, fd: int) -> None:
        """Begin to listen; raise ``OSError`` when the file may not be listened to."""
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = _checked(libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        try:
            # Its name may be another file's by now; this way it is the open one.
            _checked(libc.inotify_add_watch(self.fd, f"/proc/self/fd/{fd}".encode(), MODIFY))
        except OSError:
            self.close()
            raise

    def take(self) -> None:
        """Take what was heard: what is written from now on wakes again."""
        try:
            os.read(self.fd, ROOM)
        except BlockingIOError:
            return

    def close(self) -> None:
        """Listen no more."""
        os.close(self.fd)


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer
