"""Opens the kernel log for an agent that may not: hands the open file over a unix socket, and does nothing else.

``python3 -m wheeltapper_hooks.kernel_log_opener /dev/kmsg /run/kernel-log/socket`` is all that is privileged on a node
of Kubernetes. The kernel checks who opens the log, not who reads it, so the agent itself needs no privilege. This reads
nothing that it is sent, and imports a few modules of the standard library only.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from pathlib import Path

OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC

NO_LOG = b"-"
"""Sent without a file, when the log could not be opened; why it could not follows."""


def serve(source: Path, place: Path) -> None:
    """Hand *source*, opened anew for each, to whoever connects to the socket at *place*; for ever.

    Raises:
        OSError: the socket cannot be made.
    """
    place.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as door:
        door.bind(str(place))
        # The folder is the pod's own: who sees the socket may use it.
        place.chmod(0o666)
        door.listen()
        while True:
            visitor, _ = door.accept()
            with visitor:
                hand_over(source, visitor)


def hand_over(source: Path, visitor: socket.socket) -> None:
    """Send *source*, opened, to *visitor*, or why it could not be opened."""
    try:
        opened = os.open(source, OPEN)
    except OSError as error:
        said, files = NO_LOG + str(error).encode(), []
    else:
        said, files = b"+", [opened]
    try:
        socket.send_fds(visitor, [said], files)
    except OSError as error:
        print(f"the kernel log could not be handed over: {error}", file=sys.stderr, flush=True)  # noqa: T201 - its log
    finally:
        for each in files:
            os.close(each)


def main() -> None:
    """Serve until SIGTERM."""
    # Process 1 of a container has no handler by default, and would be killed only after the grace period.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    source, place = sys.argv[1:]
    serve(Path(source), Path(place))


if __name__ == "__main__":
    main()
