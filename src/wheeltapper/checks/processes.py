"""The processes of the machine, from ``/proc``: who runs, and in which state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wheeltapper.checks.files import text
from wheeltapper.checks.model import Host

COMM_BYTES = 15
"""The kernel keeps no more of a process's name."""

KERNEL_THREAD = 0x00200000
"""PF_KTHREAD of the kernel's flags: some of its own threads rest in state D by design."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process; ``began`` in clock ticks since boot tells it from another that has its number later."""

    pid: int
    comm: str
    state: str
    is_kernel: bool
    began: int


def every(host: Host) -> Iterator[Process]:
    """Yield the processes of *host*; those that end meanwhile are left out.

    Raises:
        OSError: ``/proc`` cannot be listed.
    """
    for folder in host.procfs.iterdir():
        if folder.name.isdigit() and (told := text(folder / "stat")):
            # The name stands in parentheses and may hold any character, these too.
            pid, _, rest = told.partition(" (")
            comm, _, fields = rest.rpartition(") ")
            words = fields.split()
            if len(words) > 19:
                yield Process(int(pid), comm, words[0], bool(int(words[6]) & KERNEL_THREAD), int(words[19]))
