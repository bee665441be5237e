"""Who is there: the files of all processes, who has to do with a folder, and who lives in which namespaces."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
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


@contextmanager
def namespaces(pids: Iterable[int], kinds: Iterable[str]) -> Iterator[set[str]]:
    """The namespaces of *kinds* of *pids* that are not this process's own too.

    They are held open meanwhile: the kernel would soon give the number of one that is gone to another.
    """
    found = set()
    with ExitStack() as held:
        for place in (Path(f"/proc/{pid}/ns/{kind}") for pid in pids for kind in kinds):
            with suppress(OSError):
                if str(place.readlink()) in found:
                    continue
                opened = os.open(place, os.O_RDONLY)
                held.callback(os.close, opened)
                found.add(str(Path(f"/proc/self/fd/{opened}").readlink()))
        yield found - {str(link.readlink()) for link in Path("/proc/self/ns").iterdir()}


def inhabited_namespaces() -> set[str]:
    """Return the namespaces that some process lives in."""
    found = set()
    for folder in files("ns"):
        with suppress(OSError):
            found |= {str(link.readlink()) for link in folder.iterdir()}
    return found
