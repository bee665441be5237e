"""What the agent costs a node with eight GPUs, all checks on at their default schedule; and how fast it reads the kernel.

The GPUs are our own NVML's (tests/native), everything else is this machine's. The kernel log is a plain file: nobody but
the kernel can write into the device in its name.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.harness import Figure, progress
from tests.integration import fake_nvml
from tests.integration.fake_loading import VARIABLE
from tests.integration.node import LOST, Node
from wheeltapper.checks.registry import shipped
from wheeltapper_hooks.agent.asking import ask_agent

GPUS = tuple(f"0000:{bus:02x}:00" for bus in (0x19, 0x3B, 0x4C, 0x5D, 0x9B, 0xBB, 0xCB, 0xDB))

WATCHED_S = 180
"""Three periods of the slowest common probe."""

PER_S, FOR_S, TELLING = 12_000, 10, 1_000  # a fifth more lines than are asked for: what is read cannot be more
"""Lines a second, for how many seconds, and of how many lines one is a fault."""

QUIET = "pcieport 0000:00:1c.0: AER: Corrected error message received from 0000:00:1c.0 number {number}"

PLAIN = "python with asyncio, sqlite3 and pydantic"
IMPORTS = "import asyncio, sqlite3, pydantic; pydantic.create_model('M', x=(int, 0)); input()"


class BusyNode(Node):
    """A node whose agent finds our NVML with eight GPUs."""

    @property
    def environment(self) -> dict[str, str]:
        library = fake_nvml.library()
        return {
            **super().environment,
            "LD_LIBRARY_PATH": str(library.parent),
            VARIABLE: str(self.folder / "roots/nvml"),
        }


def figures(_runs: int) -> Iterator[Figure]:
    """Yield memory and processor time of the agent, and the rate at which it reads kernel lines."""
    folder = Path(tempfile.mkdtemp(prefix="wheeltapper-bench-"))
    try:
        all_on, off = _made(folder / "on", off=[]), _made(folder / "off", off=sorted(shipped()))
        plain_mb = _plain_mb()
        try:
            for node in (all_on, off):
                node.start()
            seen, spent = _watched([all_on, off])
        finally:
            all_on.close()
            off.close()
        yield _figure("agent_rss_mb", max(seen[0]), "MB", PLAIN, plain_mb, WATCHED_S)
        yield _figure("agent_cpu_percent", spent[0], "%", "the same agent without checks", spent[1], WATCHED_S)
        yield from _kernel_lines(_made(folder / "kmsg", off=[]), max(seen[0]))
    finally:
        shutil.rmtree(folder)


def _made(folder: Path, off: list[str]) -> BusyNode:
    node = BusyNode(folder)
    roots = node.folder / "roots"
    roots.mkdir()
    fake_nvml.lay(roots, {"addresses": GPUS})
    for place, kept in (("", "bus"), ("bus", "pci")):
        for path in (Path("/sys") / place).iterdir():
            if path.name != kept:
                (roots / "sys" / place / path.name).symlink_to(path)
    node.configure(
        node={"expected_gpus": len(GPUS), "gpus": list(GPUS)},
        agent={"sysfs": str(roots / "sys"), "dev": str(roots / "dev")},
        checks={"off": off},
    )
    return node


def _figure(name: str, value: float, unit: str, baseline: str, against: float, n: int) -> Figure:
    return Figure(name, round(value, 3), unit, baseline, round(against, 3), round(value / against, 3), n)


def _watched(nodes: list[BusyNode]) -> tuple[list[list[float]], list[float]]:
    """Return each agent's memory in MB, second by second, and the percent of one processor that it used."""
    for node in nodes:
        _must_see(node)
    pids = [node.agent.pid for node in nodes if node.agent]
    seen: list[list[float]] = [[] for _ in pids]
    before, began = [_cpu_s(pid) for pid in pids], time.monotonic()
    for second in range(1, WATCHED_S + 1):
        time.sleep(max(0.0, began + second - time.monotonic()))
        for number, pid in enumerate(pids):
            seen[number].append(_rss_mb(pid))
        progress("agent", second, WATCHED_S)
    took = time.monotonic() - began
    return seen, [100 * (_cpu_s(pid) - was) / took for pid, was in zip(pids, before, strict=True)]


def _must_see(node: BusyNode) -> None:
    """Raise when a check cannot look: an agent that sees nothing is cheap."""
    said = ask_agent(node.run_dir, "preflight")
    blind = {each["check"]: each["reason"] for each in said["checks"] if each["result"] == "unknown"}
    if blind:
        raise RuntimeError(f"these cannot look: {blind}")


def _kernel_lines(node: BusyNode, usual_mb: float) -> Iterator[Figure]:
    node.start()
    try:
        assert node.agent is not None
        last, peak = PER_S * FOR_S, 0.0
        began = time.monotonic()
        writer = threading.Thread(target=_write_lines, args=(node, began))
        writer.start()
        while _read_up_to(node) < last:
            peak = max(peak, _rss_mb(node.agent.pid))
            time.sleep(0.1)
        took = time.monotonic() - began
        writer.join()
        lost = last // TELLING - _kept(node)
        if lost:
            raise RuntimeError(f"{lost} of {last // TELLING} faults were lost")
        yield _figure("kmsg_lines_per_s", last / took, "lines/s", "as they were written", PER_S, last)
        yield _figure("kmsg_rss_mb", peak, "MB", "the agent at rest", usual_mb, last)
    finally:
        node.close()


def _write_lines(node: BusyNode, began: float) -> None:
    with node.kmsg_file.open("a", buffering=1 << 16) as log:
        for number in range(1, PER_S * FOR_S + 1):
            text = LOST.format(gpu=GPUS[0]) if number % TELLING == 0 else QUIET.format(number=number)
            log.write(f"4,{number},{time.monotonic_ns() // 1000},-;{text}\n")
            if number % 100 == 0:
                log.flush()
                time.sleep(max(0.0, began + number / PER_S - time.monotonic()))


def _read_up_to(node: BusyNode) -> int:
    return int(ask_agent(node.run_dir, "status")["kernel_sequence"])


def _kept(node: BusyNode) -> int:
    with sqlite3.connect(node.state_dir / "agent.db") as db:
        return int(db.execute("SELECT count(*) FROM finding WHERE signature = 'nvidia.xid.79'").fetchone()[0])


def _rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def _cpu_s(pid: int) -> float:
    """Return the processor seconds of *pid* and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _plain_mb() -> float:
    with subprocess.Popen([sys.executable, "-c", IMPORTS], stdin=subprocess.PIPE) as process:
        time.sleep(2.0)
        size = _rss_mb(process.pid)
        process.communicate(b"\n")
    return size
