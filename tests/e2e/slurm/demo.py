"""``make demo``: the whole loop on a real Slurm cluster, told as it happens.

Everything is real but the hardware: slurmctld, slurmd, munged, the hooks, the agents and the controller service. A
node's kernel log is a file that this program writes to, and the training job is a small stand-in for PyTorch.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from tests.e2e.planted import Plan
from tests.e2e.slurm import scenes
from tests.e2e.slurm.cluster import Cluster, ClusterError

console = Console(highlight=False, soft_wrap=True)

CONFIG = {
    "policy": {
        "mode": "full",
        "backoff_s": 3.0,  # a minute in real life
        "budget": {"max_percent": 50.0},
    },
    "controller": {"gather_deadline_s": 15.0},
}


PLAN = Plan()
"""What the scenes have planted, for the last one to compare with the report."""


def tell(text: str) -> None:
    """One step of the story."""
    console.print(f"  {text}")


def show(text: str) -> None:
    """What a program printed."""
    for line in text.rstrip().splitlines():
        console.print(f"    [dim]│[/dim] {line.replace('[', chr(92) + '[')}")


def check(fact: bool, claim: str) -> None:
    """Say *claim*, or end the demo when it is not true."""
    if not fact:
        raise ClusterError(f"this should have been true: {claim}")
    tell(f"[green]✓[/green] {claim}")


def label(cluster: Cluster, job: str, want: str) -> str:
    """Wait until the job's AdminComment holds *want*, and return it."""

    def there() -> str | None:
        comment = cluster.admin_comment(job)
        return comment if want in comment else None

    return cluster.wait(there, 30.0, f"job {job} to be labelled {want}")


def broken_gpu(cluster: Cluster, code: int, name: str, want: str, to_do: str) -> None:
    """Scenes a and b: a GPU breaks under a training job."""
    job = scenes.train(cluster)
    scenes.in_step(cluster, job)
    bad = scenes.nodes_of(cluster, job)[1]
    tell(f"Job {job} trains on {cluster.job(job)['NodeList']}. Now the kernel of {bad} says: {name}.")
    planted = time.time()
    cluster.node(bad).xid(code)
    comment = label(cluster, job, want)
    states, reason = cluster.node_state(bad)
    PLAN.add(job, want.partition(" ")[0], planted, time.time(), taken_out=bad)
    check(
        want in comment,
        f"the job's AdminComment says {want}, though its log's loudest line is an NCCL watchdog timeout",
    )
    check("DRAIN" in states and want in reason and to_do in reason, f"{bad} is drained: {reason}")
    cluster.wait_job(job, "COMPLETED", 60.0)
    ran = cluster.job(job)
    check(bad not in ran["NodeList"], f"the job ran again without {bad}, on {ran['NodeList']}, and finished")
    show("\n".join(line for line in cluster.output(job).splitlines() if "resuming" in line or "complete" in line))
    repair(cluster, bad)


def repair(cluster: Cluster, bad: str) -> None:
    """What a person does afterwards."""
    cluster.node(bad).reboot()
    cluster.scontrol("update", f"NodeName={bad}", "State=RESUME")
    idle = {"IDLE"}
    cluster.wait(lambda: cluster.node_state(bad)[0] == idle, 20.0, f"{bad} to be idle again")
    tell(f"A technician reboots {bad} and puts it back; the new boot has no fault, so it is fit for work.")


def out_of_memory(cluster: Cluster) -> None:
    """Scene c: the user's own fault."""
    planted = time.time()
    job = scenes.out_of_memory(cluster)
    tell(f"Job {job} asks for more GPU memory than there is.")
    comment = label(cluster, job, "software/oom")
    cluster.wait_job(job, "FAILED")
    PLAN.add(job, "software/oom", planted, time.time())
    show(comment)
    check(
        f"slurm-{job}.out:" in comment, "AdminComment (in sacct, as the job has ended) says software/oom and the line"
    )
    check(cluster.job(job)["Restarts"] == "0", "the job is not run again: it would fail again")
    check(not drained(cluster), "nothing is drained")


def link_flap(cluster: Cluster) -> None:
    """Scene d: a link goes down and comes back."""
    job = scenes.train(cluster)
    scenes.in_step(cluster, job)
    bad = scenes.nodes_of(cluster, job)[1]
    tell(f"Job {job} trains; the InfiniBand link of {bad} goes down and comes back.")
    planted = time.time()
    cluster.node(bad).kmsg("mlx5_core 0000:1a:00.0 ib0: Link down")
    cluster.node(bad).kmsg("mlx5_core 0000:1a:00.0 ib0: Link up")
    comment = label(cluster, job, "network/link_down")
    PLAN.add(job, "network/link_down", planted, time.time())
    ended = time.monotonic()
    show(comment)
    cluster.wait_job(job, "RUNNING", 60.0)
    tell(f"It waits {time.monotonic() - ended:.0f} s (a minute and doubling, in real life) and runs again.")
    cluster.wait_job(job, "COMPLETED", 60.0)
    check(not drained(cluster), "the job finished, and nothing is drained: a link that came back convicts nobody")


def kept_off(cluster: Cluster) -> None:
    """Scene e: a job is sent to a node whose verdict is fail."""
    bad = "node1"
    tell(f"On the idle {bad} a GPU falls off the bus. Before anybody looks, a job is sent there.")
    planted = time.time()
    cluster.node(bad).xid(79)
    job = scenes.train(cluster, nodes=1)
    cluster.wait_job(job, "COMPLETED", 60.0)
    PLAN.add(job, "hardware/gpu_xid", planted, time.time(), taken_out=bad)
    ran = cluster.job(job)
    check(ran["NodeList"] != bad, f"the prolog kept it off {bad}; it was not left held, and ran on {ran['NodeList']}")
    check(ran["Restarts"] == "1", "Slurm had requeued it once")
    show(ran.get("AdminComment", ""))
    check("hardware/gpu_xid" in cluster.node_state(bad)[1], f"{bad} is out with our reason, not with 'Prolog error'")


def drained(cluster: Cluster) -> list[str]:
    """Nodes that are out."""
    return [name for name in cluster.nodes if "DRAIN" in cluster.node_state(name)[0]]


def ending(cluster: Cluster) -> None:
    """Scene f: what people look at afterwards."""
    tell("What an administrator sees in Slurm:")
    show(cluster.run("sinfo", "-R", "--format=%.8N %E").stdout)
    job = min((each["JobId"] for each in cluster.jobs), key=int)
    tell(f"wheeltapper explain {job}")
    show(cluster.wheeltapper("explain", job).stdout)
    tell("wheeltapper report")
    show(cluster.wheeltapper("report").stdout)
    differences = PLAN.differences(lambda *words: cluster.wheeltapper(*words).stdout)
    check(not differences, "; ".join(differences) or "the report shows the kinds, counts and times that were planted")


SCENES: tuple[tuple[str, Callable[[Cluster], None]], ...] = (
    (
        "a  A GPU falls off the bus",
        lambda cluster: broken_gpu(cluster, 79, "Xid 79", "hardware/gpu_xid xid=79", "reboot"),
    ),
    (
        "b  GPU memory has an uncorrectable error",
        lambda cluster: broken_gpu(cluster, 48, "Xid 48", "hardware/ecc_uncorrectable xid=48", "reset the GPU"),
    ),
    ("c  A job runs out of GPU memory", out_of_memory),
    ("d  A link flaps", link_flap),
    ("e  A job is sent to a broken node", kept_off),
    ("f  What is left to read", ending),
)


def play(folder: Path) -> None:
    """Bring the cluster up and play all scenes."""
    began = time.monotonic()
    console.print("[bold]A real Slurm cluster of four nodes starts on this machine, in namespaces of its own …[/bold]")
    with Cluster(folder, nodes=4, config=CONFIG, healthcheck_interval=300, accounting=True) as cluster:
        show(cluster.sinfo())
        for title, scene in SCENES:
            console.print(f"\n[bold]{title}[/bold]  [dim]{time.monotonic() - began:.0f} s[/dim]")
            scene(cluster)
    console.print(f"\nThe cluster is gone again. The demo took {time.monotonic() - began:.0f} s.")


def main() -> None:
    """Play the demo; exit code 1 and the logs' ends when something in it was not as it should be."""
    with tempfile.TemporaryDirectory(prefix="wheeltapper-demo-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        try:
            play(folder / "cluster")
        except ClusterError as error:
            console.print(f"[red]The demo failed:[/red] {error}", markup=True)
            sys.exit(1)


if __name__ == "__main__":
    main()
