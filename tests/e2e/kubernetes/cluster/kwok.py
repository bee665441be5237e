"""Nodes that exist in the API alone, for figures at scale: KWOK keeps their status and their pods' fresh."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.e2e.kubernetes.cluster.cluster import Cluster
from tests.e2e.kubernetes.cluster.errors import ClusterError

MANAGED = "kwok.x-k8s.io/node=fake"
LABEL = {"type": "kwok"}
"""Pods come to these nodes only when they ask for this label and tolerate the taint of the same name."""

TAINT = {"key": "kwok", "value": "true", "effect": "NoSchedule"}

BATCH = 250
"""Nodes in one request of kubectl."""


@contextmanager
def simulated_nodes(cluster: Cluster, count: int, *, gpus: int = 8, timeout: float = 300.0) -> Iterator[list[str]]:
    """Add *count* nodes with *gpus* each (``kwok-0`` …) and wait until all are Ready; afterwards they are gone.

    Raises:
        ClusterError: KWOK ended; the message holds its last words.
        NotInTime: not all were Ready within *timeout* seconds.
    """
    names = [f"kwok-{number}" for number in range(count)]
    log = cluster.folder / "kwok.log"
    command = (
        str(cluster.cache.bin / "kwok"), f"--kubeconfig={cluster.kubeconfig}", "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={MANAGED}", "--node-lease-duration-seconds=40",
    )  # fmt: skip
    with log.open("wb") as out:
        kwok = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=cluster.environment)
    try:
        for start in range(0, count, BATCH):
            items = [_node(name, gpus) for name in names[start : start + BATCH]]
            text = json.dumps({"apiVersion": "v1", "kind": "List", "items": items})
            cluster.kubectl("create", "--filename", "-", stdin=text, timeout=timeout)

        def all_ready() -> bool:
            if kwok.poll() is not None:
                raise ClusterError(f"KWOK ended with {kwok.returncode}:\n{log.read_text()[-2000:]}")
            return len(_ready(cluster)) == count

        cluster.wait(all_ready, timeout, f"{count} simulated nodes to be Ready")
        yield names
    finally:
        cluster.kubectl("delete", "nodes", "--selector=type=kwok", "--wait=false", timeout=timeout)
        kwok.terminate()
        kwok.wait()


def _ready(cluster: Cluster) -> list[str]:
    template = '{range .items[*]}{.metadata.name} {.status.conditions[?(@.type=="Ready")].status}{"\\n"}{end}'
    lines = cluster.kubectl("get", "nodes", "--selector=type=kwok", f"--output=jsonpath={template}").splitlines()
    return [line.split()[0] for line in lines if line.endswith(" True")]


def _node(name: str, gpus: int) -> dict[str, Any]:
    key, _, value = MANAGED.partition("=")
    room = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {key: value},
            "labels": {
                **LABEL,
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
            },
        },
        "spec": {"taints": [TAINT]},
        "status": {"allocatable": room, "capacity": room},
    }
