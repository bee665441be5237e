"""``make demo-kubernetes``: the whole loop on a real Kubernetes cluster, told as it happens.

Everything is real but the hardware: kind's control plane and kubelets, training-operator, the chart installed by helm, and
operator and agents as pods of the image built from this checkout. A node's kernel log is a file that this program writes to,
its GPUs are a fake device plugin's, and a rank of the training job is a small stand-in for PyTorch.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from tests.e2e.kubernetes import release
from tests.e2e.kubernetes.cluster import Cluster, ClusterError, pytorch_job, started
from tests.e2e.planted import Plan
from wheeltapper import kubernetes_names as names

console = Console(highlight=False, soft_wrap=True)

PLAN = Plan()
"""What the scenes have planted, for one of them to compare with the report."""

JOB = "training.kubeflow.org/job-name"
SOON_S = 180.0

TRAINS = {"command": ["sh", "-c", "trap 'exit 143' TERM; while :; do sleep 0.2; done"]}
BUG = 'batch = {"x": 1}\nprint("step 1", flush=True)\nloss = batch["labels"]\n'


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


def command(cluster: Cluster, *words: str) -> str:
    """Run kubectl, and show what a person would have typed and seen."""
    console.print(f"    [bold]$ kubectl {' '.join(words)}[/bold]")
    said = cluster.kubectl(*words)
    show(said)
    return said


def ranks(cluster: Cluster, job: str, count: int) -> dict[str, dict[str, Any]]:
    """The pods of *job* by UID when *count* of them run; else none."""
    found = cluster.objects("pods", selector=f"{JOB}={job}")
    pods = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
    runs = len(pods) == count and all(pod["status"].get("phase") == "Running" for pod in pods)
    return {pod["metadata"]["uid"]: pod for pod in pods} if runs else {}


def places(pods: dict[str, dict[str, Any]]) -> str:
    """Which rank runs where."""
    return ", ".join(sorted(f"{pod['metadata']['name']} on {pod['spec']['nodeName']}" for pod in pods.values()))


def interruption(cluster: Cluster, job: str) -> dict[str, Any]:
    """Wait for the record of an interruption of *job*."""

    def there() -> dict[str, Any] | None:
        found = cluster.objects("interruptions")
        return next((each["spec"] for each in found if each["spec"]["job"] == job), None)

    return cluster.wait(there, SOON_S, f"the interruption of {job}")


def broken_gpu(cluster: Cluster) -> None:
    """A GPU falls off the bus under a gang of 1 + 3 ranks."""
    cluster.apply(pytorch_job("bert", 3, TRAINS))
    before = cluster.wait(lambda: ranks(cluster, "bert", 4), SOON_S, "the ranks of bert")
    tell(f"PyTorchJob bert trains with 1 + 3 ranks, restartPolicy Never: {places(before)}.")
    worker = next(pod for pod in before.values() if pod["metadata"]["name"] == "bert-worker-0")
    bad = worker["spec"]["nodeName"]
    tell(f"Now the kernel of {bad} says: Xid 79, GPU has fallen off the bus.")
    began, planted = time.monotonic(), time.time()
    cluster.nodes[bad].xid(79)
    cluster.wait(lambda: tainted(cluster, bad), SOON_S, f"the taint of {bad}")
    tell(f"{time.monotonic() - began:.1f} s later the node has a condition, a taint and a cordon.")
    after = cluster.wait(
        lambda: (new := ranks(cluster, "bert", 4)) and not new.keys() & before.keys() and new,
        SOON_S,
        "bert to run again",
    )
    tell(f"{time.monotonic() - began:.0f} s after the fault all four ranks run again: {places(after)}.")
    PLAN.add("default/bert", "hardware/gpu_xid", planted, time.time())
    check(bad not in {pod["spec"]["nodeName"] for pod in after.values()}, f"none of them is on {bad}")
    said = command(cluster, "describe", "node", bad)
    check(names.TAINT in said and "WheeltapperUnhealthy" in said, "the node itself says what is wrong and what to do")


def tainted(cluster: Cluster, node: str) -> bool:
    """True when *node* is out by our doing."""
    found = cluster.get("node", node) or {}
    return any(taint["key"] == names.TAINT for taint in found["spec"].get("taints") or ())


def users_bug(cluster: Cluster) -> None:
    """The user's own fault."""
    planted = time.time()
    cluster.apply(pytorch_job("tune", 0, {"command": ["python3", "-c", BUG]}))
    tell("PyTorchJob tune has a bug: it looks for a key that its batch does not have.")
    what = interruption(cluster, "tune")
    PLAN.add("default/tune", "software/user_code", planted, time.time())
    check(what["label"] == "software/user_code" and what["decision"] == "stop", what["reason"])
    cluster.wait_condition("pytorchjob", "tune", "Failed", timeout=SOON_S)
    check(not tainted_ones(cluster, but="bert"), "no further node is taken out, and the job is not run again")


def tainted_ones(cluster: Cluster, but: str) -> list[str]:
    """The nodes that are out by our doing, without the one that the job *but* was interrupted by."""
    guilty = interruption(cluster, but)["node"]
    return [node for node in cluster.nodes if node != guilty and tainted(cluster, node)]


def kept_off(cluster: Cluster) -> None:
    """A pod that lands on a broken node which the budget keeps in service."""
    out = interruption(cluster, "bert")["node"]
    cluster.kubectl("delete", "pytorchjob", "bert", "tune")
    bad = next(node for node in cluster.nodes if node != out)
    cluster.nodes[bad].xid(79)
    cluster.wait(lambda: release.verdict(cluster, bad) == "fail", SOON_S, f"the agent of {bad} to say so")
    tell(f"{bad} breaks, too. One node of four is out already, so the budget keeps this one in, and pods land there.")
    cluster.kubectl("label", "namespace", "default", f"{names.PREFLIGHT}=enabled")
    planted = time.time()
    cluster.apply(release.liking(pytorch_job("eval", 0, TRAINS), bad))
    tell(f"PyTorchJob eval likes {bad} best. Its pod asks the agent there about its own GPU before it starts.")
    what = interruption(cluster, "eval")
    PLAN.add("default/eval", "hardware/gpu_xid", planted, time.time())
    check(what["node"] == bad and what["confirmed"], what["sentence"])
    (pod,) = cluster.wait(lambda: ranks(cluster, "eval", 1), SOON_S, "eval to run").values()
    check(pod["spec"]["nodeName"] not in {out, bad}, f"eval runs on {pod['spec']['nodeName']}: {what['reason']}")
    command(cluster, "logs", pod["metadata"]["name"], f"--container={names.PREFLIGHT_CONTAINER}")


def imported(cluster: Cluster, scratch: Path) -> None:
    """The record goes into a ledger, and the report tells of it what was planted."""
    objects, settings = scratch / "interruptions.json", scratch / "wheeltapper.toml"
    objects.write_text(cluster.kubectl("get", "interruptions", "--all-namespaces", "--output=json"))
    settings.write_text(f"[ledger]\npath = '{scratch / 'ledger.db'}'\n")

    def ask(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "wheeltapper.cli.main", *words, f"--config={settings}"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise ClusterError(f"wheeltapper {' '.join(words)}: {done.stderr}")
        return done.stdout

    tell("wheeltapper ledger import-kubernetes, of what kubectl get interruptions --output=json has printed")
    show(ask("ledger", "import-kubernetes", str(objects)))
    tell("wheeltapper report")
    show(ask("report"))
    differences = PLAN.differences(ask)
    check(not differences, "; ".join(differences) or "the report shows the kinds, counts and times that were planted")


def goodbye(cluster: Cluster) -> None:
    """An uninstall leaves nothing behind."""
    bad = interruption(cluster, "bert")["node"]
    release.uninstall(cluster)
    text = cluster.kubectl("get", "node", bad, "--output=yaml")
    check(
        not re.search(rf"{re.escape(names.PREFIX)}|{names.CONDITION}", text), f"{bad} carries nothing of ours any more"
    )


def play(cluster: Cluster, scratch: Path) -> None:
    """All scenes, in their order."""
    scenes: tuple[tuple[str, Callable[[], None]], ...] = (
        (
            "The image is built from operator/Dockerfile, and helm installs the chart",
            lambda: _install(cluster, scratch),
        ),
        ("A GPU breaks under a training job", lambda: broken_gpu(cluster)),
        ("A user's bug is nobody else's", lambda: users_bug(cluster)),
        ("The record", lambda: _record(cluster)),
        ("A pod asks before it starts", lambda: kept_off(cluster)),
        ("The record, for good", lambda: imported(cluster, scratch)),
        ("helm uninstall", lambda: goodbye(cluster)),
    )
    for number, (title, scene) in enumerate(scenes, 1):
        console.print(f"\n[bold]{number}. {title}[/bold]")
        scene()


def _install(cluster: Cluster, scratch: Path) -> None:
    release.build_image(cluster, scratch)
    release.install(cluster, release.WITH_PREFLIGHT)
    cluster.wait(lambda: release.is_trusted(cluster), SOON_S, "the API server to be told whom to trust")
    command(cluster, "get", "pods", f"--namespace={release.NAMESPACE}")
    cluster.wait(
        lambda: all(release.verdict(cluster, node) == "ok" for node in cluster.nodes), SOON_S, "the agents' word"
    )
    command(cluster, "get", "nodehealths")


def _record(cluster: Cluster) -> None:
    said = command(cluster, "get", "interruptions")
    check("hardware/gpu_xid" in said and "software/user_code" in said, "both interruptions are on record")


def main() -> int:
    began = time.monotonic()
    console.print("[bold]Wheeltapper on Kubernetes[/bold]: one control plane and three nodes start on this machine …")
    with tempfile.TemporaryDirectory(prefix="wheeltapper-demo-") as folder:
        try:
            with started(Path(folder, "cluster")) as cluster:
                tell(f"The cluster is up after {time.monotonic() - began:.0f} s.")
                play(cluster, Path(folder))
        except ClusterError as error:
            console.print(f"[red]The demo stopped:[/red] {error}", markup=True)
            return 1
    console.print(f"\nAll of it took {time.monotonic() - began:.0f} s; the cluster is gone.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
