"""A stand-in for a training job: it has ranks, steps, checkpoints and collectives, and it dies as real ones die.

``train.py FOLDER STEPS``, one process per rank under srun. Ranks meet at every step through files in FOLDER (the
shared file system). A rank watches its node's kernel log, since no real GPU is there to break under it: after an Xid
its GPU is gone and it hangs or fails, after a link goes down its transport fails. The other ranks notice only that
their collective does not end, and print what PyTorch's watchdog prints.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import NoReturn

COLLECTIVE_S = 2.0
"""Seconds until a collective is given up: ten minutes in real life."""

STEP_S = 0.25

WATCHDOG = (
    "[rank{rank}]:[E1129 12:01:03.928 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation timeout:"
    " WorkNCCL(SeqNum={step}, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=2000) ran for 2003"
    " milliseconds before timing out.\n"
    "[rank{rank}]:[E1129 12:01:03.931 ProcessGroupNCCL.cpp:1595] [PG 0 (default_pg) Rank {rank}] Process group watchdog thread"
    " terminated with exception: [Rank {rank}] Watchdog caught collective operation timeout"
)
ECC = (
    "[rank{rank}]: RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
    "[rank{rank}]: Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions."
)
TRANSPORT = (
    "{node}:4711:4755 [0] transport/net_ib.cc:1298 NCCL WARN NET/IB : Got completion from peer 10.0.0.7<51234> with status=12"
    " opcode=0 len=0 vendor err 129 (Recv) localGid fe80::1 remoteGidsfe80::2 hca mlx5_0"
)


def say(text: str) -> None:
    """Print at once: a process that aborts loses what it has buffered."""
    print(text, flush=True)


def hang() -> NoReturn:
    """What a rank does when its GPU is gone: nothing, for ever."""
    while True:
        time.sleep(3600)


class Rank:
    """One rank of the job."""

    def __init__(self, folder: Path) -> None:
        self.rank = int(os.environ["SLURM_PROCID"])
        self.world = int(os.environ["SLURM_NTASKS"])
        self.node = os.environ["SLURMD_NODENAME"]
        # Every attempt has a meeting place of its own; the checkpoint is common to all.
        self.meeting = folder / f"attempt-{os.environ.get('SLURM_RESTART_COUNT', '0')}"
        self.meeting.mkdir(parents=True, exist_ok=True)
        self.checkpoint = folder / "checkpoint"
        self.kernel_log = Path("/dev/kmsg").open(errors="replace")  # noqa: SIM115 - read until the rank ends
        self.kernel_log.seek(0, os.SEEK_END)

    def start(self) -> int:
        step = int(self.checkpoint.read_text()) if self.checkpoint.exists() else 0
        if step and self.rank == 0:
            say(f"[rank0]: resuming from step {step}")
        return step

    def look_at_gpu(self) -> None:
        """Break when the kernel says that the hardware under this rank broke."""
        news = self.kernel_log.read()
        if "): 48," in news:
            # The process hangs in its own clean-up, as it often does in real life: nobody is told.
            say(ECC.format(rank=self.rank))
            hang()
        if "NVRM: Xid" in news:
            hang()
        if "Link down" in news:
            say(TRANSPORT.format(node=self.node))
            hang()

    def all_reduce(self, step: int) -> None:
        """Wait until every rank has come to *step*; give up as the watchdog does."""
        (self.meeting / f"{step}-{self.rank}").touch()
        deadline = time.monotonic() + COLLECTIVE_S
        while not all((self.meeting / f"{step}-{other}").exists() for other in range(self.world)):
            if time.monotonic() > deadline:
                say(WATCHDOG.format(rank=self.rank, step=step))
                os.abort()
            time.sleep(0.02)

    def train(self, steps: int) -> None:
        for step in range(self.start(), steps):
            time.sleep(STEP_S)
            self.look_at_gpu()
            self.all_reduce(step)
            if self.rank == 0:
                say(f"step {step} loss {4 / (step + 1):.3f}")
                self.checkpoint.write_text(str(step + 1))
        if self.rank == 0:
            say("training is complete")


if __name__ == "__main__":
    Rank(Path(sys.argv[1])).train(int(sys.argv[2]))
