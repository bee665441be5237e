"""The files of all processes, without a look at whether they are still there; and who has to do with a folder."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def files(name: str) -> list[Path]:
    """Return ``/proc/PID/name`` of every process. Reading one raises ``OSError`` once its process is gone.

    Not ``Path.glob``: it looks at each file first, and raises ``ProcessLookupError`` for one that is gone by then.
    """
    return [folder / name for folder in Path("/proc").iterdir() if folder.name.isdigit()]


def naming(folder: Path) -> list[str]:
    """Return the command lines that hold the folder's name, but for our own.

    A zombie has no command line, and only its parent can be rid of it.
    """
    found = []
    for file in files("cmdline"):
        with suppress(OSError):
            text = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(folder) in text and int(file.parent.name) != os.getpid():
                found.append(text)
    return found


def mounts_of(folder: Path) -> list[str]:
    """Return the lines of this process's table of mounts that hold the folder's name."""
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]
