"""How many nodes' reports the controller service takes in a second on one core, and in how much memory.

5,000 nodes end 50 jobs in the same second: the real service with its journal and ledger, on a disk, decides each of
them; the senders are simulated, prove their names, and run on other cores where there are any. Slurm's commands are a
script: they cost the service what starting a program costs.
"""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.figures_agent import IMPORTS, PLAIN, _cpu_s
from tests.bench.harness import Figure, progress
from tests.bench.senders import MASTER, node_name

JOBS, NODES = 50, 100
BARE = "a bare asyncio server that reads and discards the same bytes"

SCONTROL = """#!/bin/sh
# Job $4 has failed.
[ "$1 $2 $3" = "--json show job" ] || exit 0
echo "{\\"jobs\\": [{\\"job_id\\": $4, \\"job_state\\": [\\"FAILED\\"], \\"batch_flag\\": true, \\"requeue\\": false}]}"
"""

ENDED = {
    "SLURM_JOB_NAME": "train",
    "SLURM_JOB_USER": "ada",
    "SLURM_JOB_UID": "1000",
    "SLURM_JOB_GID": "100",
    "SLURM_JOB_PARTITION": "main",
    "SLURM_JOB_EXIT_CODE2": "1:0",
    "SLURM_JOB_WORK_DIR": "/home/ada",
    "SLURM_JOB_STDOUT": "/home/ada/%j.out",
}


class Process:
    """A server on a port of its own and on the last core, and how much memory it has had at most."""

    def __init__(self, folder: Path, port: int, *words: str) -> None:
        self.port = port
        environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path)}
        with (folder / f"{port}.log").open("wb") as log:
            self.process = subprocess.Popen([sys.executable, *words], env=environment, stdout=log, stderr=log)
        os.sched_setaffinity(self.process.pid, {max(os.sched_getaffinity(0))})
        self.peak_mb = 0.0
        self._watched = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()
        deadline = time.monotonic() + 30.0
        while not self._listens():
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise RuntimeError(f"it did not start: {(folder / f'{port}.log').read_text()}")
            time.sleep(0.05)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _watch(self) -> None:
        page_mb = os.sysconf("SC_PAGE_SIZE") / 1e6
        while not self._watched.wait(0.1):
            try:
                pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
            except (OSError, IndexError):
                return
            self.peak_mb = max(self.peak_mb, pages * page_mb)

    def close(self) -> None:
        self._watched.set()
        self.process.terminate()
        self.process.wait(30)


def figures(runs: int) -> Iterator[Figure]:
    """Yield reports per second, and the peak of the resident memory meanwhile."""
    folder = Path(tempfile.mkdtemp(prefix="wheeltapper-bench-"))
    rounds = max(3, runs // 40)
    try:
        service = _service(folder)
        port = _free_port()
        bare = Process(folder, port, "-m", "tests.bench.bare_server", str(port))
        try:
            seconds, bare_seconds = _in_turn(folder, service, bare, rounds)
            spent, bare_spent = (_cpu_s(each.process.pid) for each in (service, bare))
        finally:
            service.close()
            bare.close()
        plain = _plain_mb()
        reports = JOBS * NODES
        value, against = reports / statistics.median(seconds), reports / statistics.median(bare_seconds)
        yield _figure("slurm_reports_per_s", value, "1/s", BARE, against, rounds)
        # What one core can do when nobody else wants it: the decisions on the jobs are in it, too.
        in_all = rounds * reports
        yield _figure("slurm_reports_per_cpu_s", in_all / spent, "1/s", BARE, in_all / bare_spent, rounds)
        yield _figure("slurm_service_rss_mb", service.peak_mb, "MB", PLAIN, plain, rounds)
    finally:
        shutil.rmtree(folder)


def _service(folder: Path) -> Process:
    port = _free_port()
    (folder / "scontrol").write_text(SCONTROL)
    (folder / "scontrol").chmod(0o755)
    (folder / "key").write_bytes(MASTER)
    (folder / "wheeltapper.toml").write_text(
        f'[controller]\naddress = "127.0.0.1:{port}"\nkey_file = "{folder}/key"\nspool_dir = "{folder}/spool"\n'
        f'[slurm]\nclient = "command"\n[ledger]\npath = "{folder}/ledger.db"\n'
    )
    words = ("slurm", "controller", "--config", str(folder / "wheeltapper.toml"))
    return Process(folder, port, "-m", "wheeltapper.cli.main", *words)


def _in_turn(folder: Path, service: Process, bare: Process, rounds: int) -> tuple[list[float], list[float]]:
    seconds, bare_seconds = [], []
    for number in range(1, rounds + 1):
        first = 10_000 * number
        _end(folder / "spool" / "ended", first)
        seconds.append(_send(service.port, first))
        bare_seconds.append(_send(bare.port, first))
        _must_be_decided(folder, number)
        progress("fleet", number, rounds)
    return seconds, bare_seconds


def _end(spool: Path, first: int) -> None:
    """Let the jobs end, as EpilogSlurmctld tells it."""
    for job in range(JOBS):
        nodes = f"node[{node_name(job * NODES)[4:]}-{node_name(job * NODES + NODES - 1)[4:]}]"
        start = str(int(time.time()) - 3600)
        told = {**ENDED, "SLURM_JOB_ID": str(first + job), "SLURM_JOB_NODELIST": nodes, "SLURM_JOB_START_TIME": start}
        entry = b"\0".join(f"{key}={value}".encode() for key, value in told.items()) + b"\0"
        (spool / f".{first + job}").write_bytes(entry)
        (spool / f".{first + job}").rename(spool / f"{first + job}.1")


def _send(port: int, first: int) -> float:
    words = [sys.executable, "-m", "tests.bench.senders", str(port), str(first), str(JOBS), str(NODES)]
    cores = os.sched_getaffinity(0)
    others = (cores - {max(cores)}) or cores
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, preexec_fn=lambda: os.sched_setaffinity(0, others)
    )
    if done.returncode:
        raise RuntimeError(f"the senders failed: {done.stderr}")
    return float(done.stdout)


def _must_be_decided(folder: Path, rounds: int) -> None:
    """Raise when an interruption is missing: reports that lead to nothing are cheap."""
    deadline = time.monotonic() + 60.0
    while True:
        with sqlite3.connect(folder / "ledger.db") as ledger:
            count = ledger.execute("SELECT count(*) FROM interruption").fetchone()[0]
        if count == rounds * JOBS:
            return
        if time.monotonic() > deadline:
            raise RuntimeError(f"{count} of {rounds * JOBS} ends were decided: {_tail(folder)}")
        time.sleep(0.1)


def _tail(folder: Path) -> str:
    return "".join(path.read_text()[-2000:] for path in folder.glob("*.log"))


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _plain_mb() -> float:
    with subprocess.Popen([sys.executable, "-c", IMPORTS], stdin=subprocess.PIPE) as process:
        time.sleep(2.0)
        pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
        process.communicate(b"\n")
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def _figure(name: str, value: float, unit: str, baseline: str, against: float, n: int) -> Figure:
    return Figure(name, round(value, 3), unit, baseline, round(against, 3), round(value / against, 3), n)
