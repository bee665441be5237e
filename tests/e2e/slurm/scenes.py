"""Jobs that the tests and the demo submit, each the start of a story."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.e2e.slurm.cluster import Cluster

TRAIN = Path(__file__).with_name("train.py")

STEPS = 14
"""Steps of a training job: three or four seconds when nothing happens."""

CUDA_OOM = """\
Traceback (most recent call last):
  File "/home/ada/train.py", line 212, in <module>
    main()
  File "/home/ada/train.py", line 187, in main
    loss = model(batch)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which \
1.32 GiB is free. Including non-PyTorch memory, this process has 77.77 GiB memory in use."""


def train(cluster: Cluster, *options: str, nodes: int = 2, steps: int = STEPS, user: str | None = None) -> str:
    """Submit a training job, one rank per node, and return its id."""
    script = (
        f"srun --kill-on-bad-exit=1 --unbuffered {sys.executable} {TRAIN}"
        f" {cluster.layout.work}/train-$SLURM_JOB_ID {steps}"
    )
    return cluster.sbatch(script, f"--nodes={nodes}", "--ntasks-per-node=1", "--job-name=train", *options, user=user)


def out_of_memory(cluster: Cluster, *options: str, user: str | None = None) -> str:
    """Submit a job that needs more GPU memory than there is."""
    return cluster.sbatch(f"sleep 0.3\ncat >&2 <<'END'\n{CUDA_OOM}\nEND\nexit 1", "--job-name=oom", *options, user=user)


def in_step(cluster: Cluster, job: str, step: int = 2) -> None:
    """Wait until the training job has come to *step*."""

    def there() -> bool:
        log = cluster.layout.work / f"slurm-{job}.out"
        return log.exists() and f"step {step} " in log.read_text()

    cluster.wait(there, 30.0, f"job {job} to come to step {step}")


def nodes_of(cluster: Cluster, job: str) -> list[str]:
    """The nodes on which a running job has ranks, the batch host first."""
    return cluster.run("scontrol", "show", "hostnames", cluster.job(job)["NodeList"]).stdout.split()


def idle(cluster: Cluster, *options: str, seconds: float = 60.0) -> str:
    """Submit a job that only sleeps."""
    return cluster.sbatch(f"sleep {seconds:g}", "--job-name=idle", *options)
