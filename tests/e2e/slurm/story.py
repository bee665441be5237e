"""What the tests of the loop ask of a cluster."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

from tests.e2e.slurm.cluster import Cluster

FULL: dict[str, Any] = {
    "policy": {
        "mode": "full",
        "backoff_s": 2.0,
        "budget": {"max_percent": 100.0},
        # The tests of a module break the same nodes again and again.
        "release": {"repeat_quarantines": 100},
    },
    "controller": {"gather_deadline_s": 10.0},
}
"""Acts on everything, and does not wait as long as in real life."""

CALM = 3600
"""Seconds between health checks where a test must come first."""


def explain(cluster: Cluster, job: str) -> list[dict[str, Any]]:
    """What the ledger says of *job*, one entry per attempt that was interrupted."""
    done = cluster.wheeltapper("explain", job, "--json")
    return json.loads(done.stdout or "[]")  # type: ignore[no-any-return]


def explained(cluster: Cluster, job: str, attempts: int = 1, timeout: float = 30.0) -> dict[str, Any]:
    """Wait until *attempts* attempts of *job* are in the ledger with nothing left to do, and return the last one."""

    def there() -> dict[str, Any] | None:
        found = explain(cluster, job)
        settled = all(act["outcome"] != "planned" for each in found for act in each["acts"])
        return found[-1] if len(found) >= attempts and settled else None

    return cluster.wait(there, timeout, f"{attempts} attempts of job {job} to be explained")


def labelled(told: dict[str, Any]) -> tuple[str, str, str | None]:
    """Label, detail and symptom."""
    return told["diagnosis"]["label"], told["diagnosis"]["detail"], told["diagnosis"]["symptom"]


def outcomes(told: dict[str, Any]) -> dict[str, str]:
    """What became of each act."""
    return {act["kind"]: act["outcome"] for act in told["acts"]}


def drained(cluster: Cluster) -> set[str]:
    """Nodes that are out."""
    return {name for name in cluster.nodes if "DRAIN" in cluster.node_state(name)[0]}


def open_attempts(cluster: Cluster) -> list[str]:
    """Keys of the attempts that the service has heard of and not decided."""
    with sqlite3.connect(f"file:{cluster.controller_files.spool}/journal.db?mode=ro", uri=True) as db:
        found = [key for (key,) in db.execute("SELECT key FROM open_attempt")]
    db.close()
    return found


def repair(cluster: Cluster) -> None:
    """End all jobs, reboot every node that is out or broken and put it back, as a technician does."""
    # By partition, not by user: the scancel of 26.05 knows no user `nobody`, though sbatch lets that user submit.
    cluster.run("scancel", "--partition=main")
    cluster.wait(lambda: not cluster.squeue("--noheader", "--all").strip(), 30.0, "all jobs to be gone")
    out = drained(cluster)
    for name, node in cluster.nodes.items():
        if name in out or not node.verdict.read_text().startswith("ok "):
            node.reboot()
        if name in out:
            cluster.scontrol("update", f"NodeName={name}", "State=RESUME")
    idle = {"IDLE"}
    cluster.wait(
        lambda: all(cluster.node_state(name)[0] == idle for name in cluster.nodes), 30.0, "all nodes to be idle"
    )
