"""How fast and in how little memory logs are read, and how soon a small one is answered; all on one core.

The logs are made up here from a fixed seed: lines as training frameworks write them, with lines of failure between them.
"""

from __future__ import annotations

import io
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.bench.harness import Figure, compared, in_turn, process_ms
from wheeltapper import catalogue
from wheeltapper.catalogue.engines import fastest
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.evidence import Source
from wheeltapper.scan import scan_file, scan_log
from wheeltapper.scan.blocks import BLOCK

MB = 1e6
SPARSE_EVERY, DENSE_EVERY = 10_000, 3
SPARSE_MB, DENSE_MB, FLOOR_MB = 512, 128, 4
RANKS = 16_384
STREAM_MB = 16_000
"""Generated while it is read; nothing of it is written anywhere."""

RG = "ripgrep counting lines with the same literals"
LOOP = "per-line re loop with the same literals"

_QUIET: tuple[Callable[[int], str], ...] = (
    lambda n: (
        f" [2025-11-29 12:{n // 60 % 60:02}:{n % 60:02}] iteration {n:8}/  500000 | consumed samples: {n * 512:12} | "
        f"elapsed time per iteration (ms): {n % 977}.{n % 10} | learning rate: 6.0E-05 | global batch size:   512 | "
        f"lm loss: {2 + n % 89 / 97:.6E} | loss scale: 1.0 | grad norm: 0.{n % 997} | skipped: 0 |"
    ),
    lambda n: (
        f"[rank{n % 8}]:2025-11-29 12:{n // 60 % 60:02}:{n % 60:02},{n % 1000:03} INFO trainer: step={n} loss=2.{n}"
    ),
    lambda n: (
        f"{n % 64}: n{n % 8}:{4000 + n % 64}:{4100 + n % 64} [{n % 8}] NCCL INFO Channel {n % 16:02}/16 : 0 1 2 3"
    ),
    lambda n: (
        f"Epoch 1:  {n % 100}%|####      | {n}/500000 [12:{n % 60:02}<99:00,  3.1it/s, v_num=7, train_loss=2.{n}]"
    ),
)
_FAILED: tuple[Callable[[int], str], ...] = (
    lambda n: (
        f"[rank{n % 64}]:[E1129 12:{n // 60 % 60:02}:{n % 60:02}.000000 ProcessGroupNCCL.cpp:616] [Rank {n % 64}] Watchdog "
        f"caught collective operation timeout: WorkNCCL(SeqNum={n}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
        "Timeout(ms)=600000) ran for 600029 milliseconds before timing out."
    ),
    lambda n: (
        f"n{n % 32}:{4000 + n % 64}:41 [{n % 8}] NCCL WARN Call to connect to 10.0.3.{n % 200}<{n}> failed : Connection refused"
    ),
    lambda n: f"[rank{n % 64}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {n % 40}.00 GiB.",
    lambda n: f"srun: error: n{n % 32}: task {n % 256}: Exited with exit code {1 + n % 2}",
)


def figures(runs: int) -> Iterator[Figure]:
    """Yield the figures of the scanner; *runs* is for the short ones, the long ones take a tenth of it."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})  # children inherit it: everything is measured on the same one core
    folder = Path(tempfile.mkdtemp(prefix="wheeltapper-bench-"))
    print(f"engine: {fastest().__name__}", file=sys.stderr)
    try:
        few = max(3, runs // 10)
        yield from _throughput(folder, "scan_sparse_mb_s", SPARSE_EVERY, SPARSE_MB, few)
        yield from _throughput(folder, "scan_dense_mb_s", DENSE_EVERY, DENSE_MB, few)
        yield _memory(folder)
        yield from _start(folder, runs)
        yield _storm(few)
    finally:
        shutil.rmtree(folder)
        os.sched_setaffinity(0, cores)


def made_up(every: int) -> Iterator[str]:
    """Yield lines for ever, one in *every* of them of a failure."""
    kinds = random.Random(7)
    for number in range(10**12):
        if number % every == every - 1:
            yield _FAILED[number // every % len(_FAILED)](number)
        else:
            yield kinds.choice(_QUIET)(number)


def _write(path: Path, every: int, megabytes: float) -> None:
    size = 0
    with path.open("w") as out:
        for line in made_up(every):
            size += out.write(line + "\n")
            if size >= megabytes * MB:
                return


def _throughput(folder: Path, name: str, every: int, megabytes: int, runs: int) -> Iterator[Figure]:
    log, short, literals = folder / "log", folder / "short", folder / "literals"
    _write(log, every, megabytes)
    _write(short, every, FLOOR_MB)
    known = catalogue.load()
    anchors = sorted(
        {each for signature in known.signatures if Source.JOB_LOG in signature.sources for each in signature.anchors}
    )
    literals.write_text("\n".join(anchors) + "\n")
    ripgrep = shutil.which("rg")
    candidates = {
        name: partial(_rate, log, lambda: scan_file(log, known)),
        LOOP: partial(_rate, short, partial(_loop, short, anchors)),
    }
    if ripgrep:
        command = [ripgrep, "-j1", "-a", "-c", "-F", "-f", str(literals), str(log)]
        candidates[RG] = partial(_rate, log, lambda: subprocess.run(command, capture_output=True, check=True))
    else:
        print(f"{name}: without ripgrep as its ceiling; on Debian: apt-get install ripgrep")
    samples = in_turn(candidates, runs, name)
    for baseline in (RG, LOOP):
        if baseline in samples:
            yield compared(name, samples[name], "MB/s", baseline, samples[baseline], 0.5)
    log.unlink()


def _rate(log: Path, work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return log.stat().st_size / MB / (time.perf_counter() - began)


def _loop(log: Path, anchors: list[str]) -> int:
    pattern = re.compile("|".join(map(re.escape, anchors)).encode())
    with log.open("rb") as lines:
        return sum(1 for line in lines if pattern.search(line))


class Stream:
    """A log that is made up while it is read: a few megabytes over and over, with their own lines of failure.

    Its last line is one, too: a run that went on after all its failures would have survived them.
    """

    def __init__(self, megabytes: int) -> None:
        lines = made_up(SPARSE_EVERY)
        self._part = "".join(next(lines) + "\n" for _ in range(20_000)).encode()
        self._left = int(megabytes * MB)
        self._at = 0
        self._last = f"\n{_FAILED[1](1)}\n".encode()

    def read(self, size: int, /) -> bytes:
        """Return up to *size* bytes, none at the end."""
        if not self._left:
            last, self._last = self._last, b""
            return last
        data = self._part[self._at : self._at + min(size, self._left)]
        self._left -= len(data)
        self._at = (self._at + len(data)) % len(self._part)
        return data


_PEAK = """
import atexit, re, sys
from pathlib import Path
# Not getrusage: the peak that it tells begins with that of the process that started this one.
told = lambda: print(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1], file=sys.stderr)
atexit.register(told)
from wheeltapper.cli.main import main
main()
"""


def _memory(folder: Path) -> Figure:
    """Measure the command as people run it, its catalogue not yet in their cache, which is the worst case."""

    def peak(megabytes: int) -> float:
        home = tempfile.mkdtemp(dir=folder)
        environment = {"PATH": os.environ["PATH"], "HOME": home, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", _PEAK, "diagnose", "--json", "-"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe) as child:
            stream = Stream(megabytes)
            while block := stream.read(BLOCK):
                child.stdin.write(block)
            answer, resident = child.communicate()
        if child.returncode or json.loads(answer)["label"] != "network/socket":
            raise RuntimeError(f"the wrong answer: {answer.decode()} {resident.decode()}")
        return int(resident) * 1024 / MB

    large, small = peak(STREAM_MB), peak(100)
    return Figure("scan_peak_rss_mb", large, "MB", "the same for 100 MB", small, round(large / small, 4), 1)


def _start(folder: Path, runs: int) -> Iterator[Figure]:
    log = folder / "slurm-12.out"
    lines = made_up(SPARSE_EVERY)
    log.write_text("".join(next(lines) + "\n" for _ in range(60)) + _FAILED[2](3) + "\n")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "wheeltapper.cli.main", "diagnose", "--json", str(log)]
    bare, pydantic = "python that does nothing", "python importing pydantic"
    samples = in_turn(
        {
            "diagnose": partial(process_ms, command, environment),
            bare: partial(process_ms, [sys.executable, "-c", "pass"], environment),
            pydantic: partial(process_ms, [sys.executable, "-c", "import pydantic; pydantic.BaseModel"], environment),
        },
        runs,
        "diagnose_start_ms",
    )
    for baseline in (bare, pydantic):
        yield compared("diagnose_start_ms", samples["diagnose"], "ms", baseline, samples[baseline], 0.5)


def _storm(runs: int) -> Figure:
    log, silent = storm(RANKS)
    known = catalogue.load()

    def answered() -> float:
        began = time.perf_counter()
        found = diagnose(list(scan_log(io.BytesIO(log), known, file="log")), None, window_s=1800.0)
        took = time.perf_counter() - began
        if (found.label, [each.rank for each in found.suspects]) != ("network/nccl_timeout", [silent]):
            raise RuntimeError(f"the wrong answer: {found.sentence}")
        return took

    def split() -> float:
        began = time.perf_counter()
        pattern = re.compile(rb"\[Rank (\d+)\] Watchdog caught")
        ranks = {found[1] for line in log.split(b"\n") if (found := pattern.search(line))}
        if len(ranks) != RANKS - 1:
            raise RuntimeError("the storm is not what it should be")
        return time.perf_counter() - began

    loop = "one re over its lines, without any answer"
    samples = in_turn({"storm": answered, loop: split}, runs, "storm")
    return compared("storm_16384_ranks_s", samples["storm"], "s", loop, samples[loop], 0.5)


def storm(ranks: int) -> tuple[bytes, int]:
    """Return the watchdog lines of all *ranks* but one, two of each, clocks askew and shuffled; and the silent rank."""
    chance = random.Random(11)
    silent = chance.randrange(ranks)
    lines = []
    for rank in range(ranks):
        if rank != silent:
            stamp = f"E1129 12:0{chance.randrange(2)}:{chance.randrange(60):02}.{chance.randrange(10**6):06}"
            head = f"[rank{rank}]:[{stamp} ProcessGroupNCCL.cpp"
            work = "SeqNum=4711, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000"
            ran = f"ran for {600_000 + chance.randrange(999)} milliseconds before timing out."
            lines.append(
                f"{head}:616] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL({work}) {ran}"
            )
            what = "Exception (either an error or timeout) detected by watchdog at work: 4711"
            last = "last enqueued NCCL work: 4711, last completed NCCL work: 4710."
            lines.append(f"{head}:1785] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] {what}, {last}")
    chance.shuffle(lines)
    return "\n".join(lines).encode(), silent
