"""How fast and in how little memory ``wheeltapper report`` sums up a million interruptions, in either database."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.bench.harness import Figure, compared, in_turn, progress
from tests.integration.ledger.postgres import NoServerError, Server
from tests.unit.make import attempt, diagnosis, logged, xid79
from wheeltapper.config import Mode
from wheeltapper.ledger import writing
from wheeltapper.ledger.database import PostgreSQL
from wheeltapper.ledger.model import Interruption
from wheeltapper.ledger.store import Ledger
from wheeltapper.policy.model import Decision, JobAction, Payer

INTERRUPTIONS = 1_000_000
NODES = 4_000
DAYS = 700
PAGE = 10_000
BARE = "python importing pydantic"
IMPORT = "import pydantic; pydantic.BaseModel"
RUN = "from wheeltapper.cli.main import main; main()"
# Not getrusage: the peak that it tells begins with that of the process that started this one.
TOLD = """
import atexit, re, sys
from pathlib import Path
peak = lambda: re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]
atexit.register(lambda: print(peak(), file=sys.stderr))
"""

_KINDS = (
    *("hardware/gpu_xid", "hardware/ecc_uncorrectable", "hardware/node_down", "network/link_down"),
    *("network/nccl_timeout", "resource/host_oom", "software/oom", "software/user_code", "scheduler/time_limit"),
    "unknown/unknown",
)


def figures(runs: int) -> Iterator[Figure]:
    """Yield the time and the peak of the resident memory of one report over everything, from both databases."""
    folder = Path(tempfile.mkdtemp(prefix="wheeltapper-bench-"))
    try:
        with closing(Ledger(folder / "ledger.db")) as ledger:
            ledger.database.run("PRAGMA synchronous = OFF")  # a benchmark's file may be lost with the machine
            fill(ledger, INTERRUPTIONS)
            ledger.database.run("PRAGMA wal_checkpoint(TRUNCATE)")
        yield from _figures(folder, f'path = "{folder / "ledger.db"}"', "report_1m", runs)
        try:
            server = Server()
        except NoServerError as error:
            print(f"record: {error}, so it is not measured")
            return
        with closing(server):
            dsn = server.database()
            with closing(Ledger(folder, database=PostgreSQL(dsn))) as ledger:
                fill(ledger, INTERRUPTIONS)
            yield from _figures(folder, f'dsn = "{dsn}"', "report_1m_postgresql", runs)
    finally:
        shutil.rmtree(folder)


def _figures(folder: Path, ledger: str, name: str, runs: int) -> Iterator[Figure]:
    config = folder / "wheeltapper.toml"
    config.write_text(f"[ledger]\n{ledger}\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    words = ["report", "--days", str(DAYS + 10), "--json", "--config", str(config)]
    command = [sys.executable, "-m", "wheeltapper.cli.main", *words]
    bare = [sys.executable, "-c", IMPORT]
    samples = in_turn(
        {"report": partial(_time, command, environment), BARE: partial(_time, bare, environment)},
        max(5, runs // 20),
        f"{name}_s",
    )
    yield compared(f"{name}_s", samples["report"], "s", BARE, samples[BARE], 0.5)
    peak, least = _peak([RUN, *words], environment), _peak([IMPORT], environment)
    yield Figure(f"{name}_rss_mb", peak, "MB", BARE, least, round(peak / least, 4), 1)


def fill(ledger: Ledger, count: int) -> None:
    """Write *count* made-up interruptions, from a fixed seed, through the code that records them."""
    chance = random.Random(23)
    now = time.time()
    for begin in range(0, count, PAGE):
        page = [_made_up(chance, number, now) for number in range(begin, min(count, begin + PAGE))]
        with ledger.database.transaction():
            writing.write(ledger.database, ledger.cluster, page, writing.OURS, 3600)
        progress("interruptions written", begin + len(page), count)


def _made_up(chance: random.Random, number: int, now: float) -> Interruption:
    kind = chance.choices(_KINDS, weights=range(len(_KINDS), 0, -1))[0]
    node = f"node{int(chance.paretovariate(1.0)) % NODES:04}"
    finding = xid79(node) if kind.startswith("hardware") else logged("network/link_down")
    end = now - (1 - number / INTERRUPTIONS) * DAYS * 86_400
    size = 2 ** chance.randrange(6)
    tried = attempt(
        key=f"{number:07}@{int(end)}",
        job=str(number),
        start=end - chance.expovariate(1 / 36_000),
        end=end,
        gpus=8 * size,
    )
    tried = replace(tried, nodes=(node, *(f"node{each:04}" for each in range(size - 1))), partition=f"p{size % 3}")
    action = JobAction(kind < "s", "because", payer=Payer.INFRASTRUCTURE if kind < "s" else Payer.NOBODY)
    said = replace(diagnosis(kind, finding, nodes=(node,)), detail="")
    return Interruption(tried, said, Decision(action), Mode.FULL, end)


def _time(command: list[str], environment: dict[str, str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def _peak(words: list[str], environment: dict[str, str]) -> float:
    """Return the peak of the resident memory of a Python that runs *words*, in MB."""
    code, *rest = words
    done = subprocess.run(
        [sys.executable, "-c", TOLD + code, *rest], env=environment, capture_output=True, text=True, check=True
    )
    return int(done.stderr.splitlines()[-1]) / 1000
