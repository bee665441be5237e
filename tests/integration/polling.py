"""``python -m tests.integration.polling LIBRARY FOLDER``: polls NVML a thousand times, and tells what that left behind.

FOLDER holds the machine's roots, and the scenarios ``well``, ``hangs`` and ``fails``.
"""

from __future__ import annotations

import asyncio
import json
import os
import pickle
import sys
from collections import Counter
from pathlib import Path

import pynvml  # noqa: F401 - each child finds it here, instead of reading its quarter of a megabyte again

from tests.integration.fake_loading import load
from wheeltapper.checks.gpu import nvml
from wheeltapper.checks.model import Host
from wheeltapper_hooks.agent.processes import in_child

POLLS = 1_000
SETTLED = POLLS // 5
"""Polls after which all that is used at all has been used."""

ODD = {0: "hangs", 1: "fails"}
"""Of forty polls, those that do not go well."""


def main(library: Path, folder: Path) -> None:
    host = Host("n1", "boot", sysfs=folder / "sys", dev=folder / "dev")
    seen, grown_kb = asyncio.run(poll_all(library, host, folder))
    print(json.dumps({"seen": seen, "grown_kb": grown_kb, "children": children()}))


async def poll_all(library: Path, host: Host, folder: Path) -> tuple[Counter[str], int]:
    seen: Counter[str] = Counter()
    settled_kb = 0
    for number in range(POLLS):
        if number == SETTLED:
            settled_kb = resident_kb()
        seen[await poll(library, host, folder / ODD.get(number % 40, "well"))] += 1
    return seen, resident_kb() - settled_kb


async def poll(library: Path, host: Host, scenario: Path) -> str:
    def work() -> bytes:
        load(library, scenario)
        try:
            return pickle.dumps(nvml.read(host))
        except OSError as error:
            return pickle.dumps(error)

    try:
        told = pickle.loads(await in_child(work, 0.05 if scenario.name == "hangs" else 20.0))
    except TimeoutError:
        return "hangs"
    return "fails" if isinstance(told, OSError) else "well"


def resident_kb() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def children() -> list[int]:
    """Return the processes that we started and that live, or are dead and not reaped."""
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
