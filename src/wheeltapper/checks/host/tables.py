"""Does the kernel have room for more threads and open files?

Both are limited for the whole machine, and a job that meets such a limit fails with "Resource temporarily unavailable"
or "Too many open files in system", whatever its own limits are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import Field

from wheeltapper.checks.files import number, text
from wheeltapper.checks.model import Check, Fault, Host, NotApplicable, Probe, Reading
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

THREADS = Fault("tables", "resource/pids_limit", "the kernel has almost no room for more threads")
FILES = Fault("tables", "resource/fd_limit", "the kernel has almost no room for more open files")


@dataclass(frozen=True, slots=True)
class Tables:
    """What is in use, and the most that may be."""

    threads: int
    threads_max: int
    files: int
    files_max: int


class Limits(Section):
    """When a table counts as full."""

    used_percent: float = Field(
        80.0, gt=0, le=100, strict=False, description="Percent in use (gpud degrades a node at 80, and fails it at 95)."
    )


def read(host: Host) -> Tables:
    """Return what is in use on *host*.

    Raises:
        NotApplicable: this kernel tells nothing of it.
        ValueError: it is not what a kernel writes.
    """
    told = text(host.procfs / "loadavg"), text(host.procfs / "sys/fs/file-nr")
    if told == (None, None):
        raise NotApplicable("this kernel does not tell what is in use")
    tasks, files = ((words or "").split() for words in told)
    most = [number(host.procfs / "sys/kernel" / name) for name in ("pid_max", "threads-max")]
    if len(tasks) < 4 or len(files) < 3 or None in most:
        raise ValueError("the kernel's tables cannot be read")
    threads = int(tasks[3].partition("/")[2])
    return Tables(threads, min(each for each in most if each is not None), int(files[0]) - int(files[1]), int(files[2]))


def judge(readings: Sequence[Reading[Tables]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each table that is almost full."""
    now = readings[-1]
    tables = now.value
    for fault, name, used, most in (
        (THREADS, "threads", tables.threads, tables.threads_max),
        (FILES, "files", tables.files, tables.files_max),
    ):
        if 100 * used > limits.used_percent * most:
            yield fault.seen(host, now.at, f"{used} of {most} {name} are in use", detail=f"{name}={used}", device=name)


PROBE = Probe("tables", read)
CHECK = Check("tables", PROBE, judge, Limits)
