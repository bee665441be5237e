"""Runs other people's programs: with a deadline, with a bound on what is kept of their words, and killed whole."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wheeltapper.checks.model import Host

OUTPUT_MAX = 256 * 1024
"""Bytes of output that are kept, the last ones; the rest is read and thrown away, so that the program can end."""

POLL_S = 0.05
"""How often a program that writes nothing is asked whether it has ended."""

FOLDERS = ("usr/local/sbin", "usr/local/bin", "usr/sbin", "usr/bin", "sbin", "bin")
"""Where programs are looked for under the machine's root: PATH is the agent's own business."""

PATH = ":".join(f"/{folder}" for folder in FOLDERS)


@dataclass(frozen=True, slots=True)
class Ran:
    """How a program ended (``code`` is negative for a signal), and what it wrote to both of its outputs."""

    code: int
    output: str


def find(host: Host, name: str) -> Path | None:
    """Return where *host* has the program *name*; None when it is not installed."""
    found = (host.root / folder / name for folder in FOLDERS)
    return next((path for path in found if os.access(path, os.X_OK)), None)


def run(command: Sequence[str], deadline_s: float, output_max: int = OUTPUT_MAX) -> Ran:
    """Run *command* in a process group of its own, which is killed whole when it ends or is late.

    Raises:
        TimeoutError: it did not end within *deadline_s* seconds.
        OSError: it cannot be started.
    """
    until = time.monotonic() + deadline_s
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={"PATH": PATH, "LC_ALL": "C"},
        start_new_session=True,
    ) as program:
        try:
            output = _output(program, until, output_max)
        except TimeoutError as error:
            raise TimeoutError(f"{command[0]} did not end within {deadline_s:g} s") from error
        finally:
            # Before it is reaped: its number, and so its group's, may be another's afterwards.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(program.pid, signal.SIGKILL)
        return Ran(program.wait(), output.decode("utf-8", "replace"))


def _output(program: subprocess.Popen[bytes], until: float, output_max: int) -> bytes:
    """Return the end of what *program* has written when it ends.

    A child that it left behind may hold its output open for ever, and it may close its output long before it ends.
    """
    kept = bytearray()
    with selectors.DefaultSelector() as selector:
        assert program.stdout is not None  # noqa: S101 - it was opened as a pipe
        selector.register(program.stdout, selectors.EVENT_READ)
        while (left := until - time.monotonic()) > 0:
            ended = _has_ended(program.pid)
            if selector.select(0.0 if ended else min(left, POLL_S)):
                if data := os.read(program.stdout.fileno(), 65_536):
                    kept += data
                    del kept[:-output_max]
                    continue
                selector.unregister(program.stdout)
            elif not ended and not selector.get_map():
                time.sleep(min(left, POLL_S))
            if ended:
                return bytes(kept)
    raise TimeoutError


def _has_ended(pid: int) -> bool:
    """Return whether our child *pid* has ended; it stays to be reaped."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
