"""What a part of the figures takes: seconds by the clock, and processor seconds by process.

On a machine that others use as well the clock says how busy they are, and the processors how much work there was.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def spent(title: str, processes: Mapping[str, int]) -> Iterator[None]:
    """Print what *title* has taken; *processes* are ids by name, beside our own."""
    watched = {**processes, "the bench": os.getpid()}
    before, began = {name: processor_s(pid) for name, pid in watched.items()}, time.monotonic()
    yield
    took = time.monotonic() - began
    parts = ", ".join(f"{name} {processor_s(pid) - before[name]:.1f}" for name, pid in watched.items())
    print(f"{title}: {took:.0f} s, and of the processors: {parts}. Load: {os.getloadavg()[0]:.1f}.", flush=True)


def processor_s(pid: int) -> float:
    """Return the processor seconds of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
