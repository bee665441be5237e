"""Training jobs for tests of the whole loop, and what is to be seen of them on the cluster."""

from __future__ import annotations

from typing import Any

from tests.e2e.kubernetes.cluster import BASE_IMAGE, GPU, MACHINE, Cluster, Node, pytorch_job
from wheeltapper import kubernetes_names as names

JOB = "training.kubeflow.org/job-name"
BATCH = "batch.kubernetes.io/job-name"
"""The labels by which the pods of a PyTorchJob and of a Job are known."""

TRAINS = "trap 'exit 143' TERM; while :; do sleep 0.2; done"
# Dies of the GPU that is lost under it, at the same time as the kernel says so.
DIES_OF_ITS_GPU = f"trap 'exit 143' TERM; until grep -q Xid {MACHINE}/kmsg; do sleep 0.2; done; exit 134"
HUNGRY = "held = [bytearray(1 << 20) for _ in range(400)]"

SOON_S = 150
"""Seconds for what takes a few on a machine that is not overloaded."""


def training(name: str, ranks: int, script: str, policy: str = "Never", gpus: int = 1) -> dict[str, Any]:
    """A gang of *ranks* with GPUs, each of which runs *script* in a shell and sees its node's kernel log."""
    container = {
        "command": ["sh", "-c", script],
        "resources": {"limits": {GPU: gpus}},
        "volumeMounts": [{"name": "machine", "mountPath": MACHINE, "readOnly": True}],
    }
    job = pytorch_job(name, ranks - 1, container, policy)
    for replica in job["spec"]["pytorchReplicaSpecs"].values():
        replica["template"]["spec"]["volumes"] = [{"name": "machine", "hostPath": {"path": MACHINE}}]
    return job


def batch_job(name: str, pods: int, script: str) -> dict[str, Any]:
    """A Job of Kubernetes' own with *pods* at once, each with a GPU, which runs *script* in a shell."""
    container = {
        "name": "main",
        "image": BASE_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", script],
        "resources": {"limits": {GPU: 1}},
    }
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 2, "containers": [container]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"parallelism": pods, "completions": pods, "template": {"spec": spec}},
    }


def leaving_soon(job: dict[str, Any]) -> dict[str, Any]:
    """Return *job* with pods that leave a node which does not answer after one second, not after five minutes."""
    for replica in job["spec"]["pytorchReplicaSpecs"].values():
        replica["template"]["spec"]["tolerations"] = [
            {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
            for key in ("unreachable", "not-ready")
        ]
    return job


def pods_of(cluster: Cluster, job: str, label: str = JOB) -> list[dict[str, Any]]:
    return cluster.objects("pods", selector=f"{label}={job}")


def gang(cluster: Cluster, job: str, ranks: int = 3, label: str = JOB) -> dict[str, dict[str, Any]]:
    """The pods of *job* by UID when all *ranks* of it run; else none."""
    pods = [pod for pod in pods_of(cluster, job, label) if "deletionTimestamp" not in pod["metadata"]]
    runs = len(pods) == ranks and all(pod["status"].get("phase") == "Running" for pod in pods)
    return {pod["metadata"]["uid"]: pod for pod in pods} if runs else {}


def anew(
    cluster: Cluster, job: str, before: dict[str, dict[str, Any]], label: str = JOB, timeout: float = SOON_S
) -> dict[str, dict[str, Any]]:
    """Wait until all ranks of *job* run, and none of them is one of *before*; return their pods by UID."""

    def other() -> dict[str, dict[str, Any]]:
        new = gang(cluster, job, label=label)
        return {} if new.keys() & before.keys() else new

    return cluster.wait(other, timeout, f"{job} to run again")


def node_of(cluster: Cluster, pods: dict[str, dict[str, Any]], pod: str) -> Node:
    """The node on which *pod* of *pods* runs."""
    found = next(each for each in pods.values() if each["metadata"]["name"] == pod)
    return cluster.nodes[found["spec"]["nodeName"]]


def interruptions(cluster: Cluster, job: str) -> list[dict[str, Any]]:
    return [each["spec"] for each in cluster.objects("interruptions") if each["spec"]["job"] == job]


def interruption(cluster: Cluster, job: str, timeout: float = SOON_S) -> dict[str, Any]:
    return cluster.wait(lambda: interruptions(cluster, job), timeout, f"the interruption of {job}")[0]


def taints(cluster: Cluster, node: str) -> dict[str, str]:
    found = cluster.get("node", node) or {}
    return {each["key"]: each.get("value", "") for each in found["spec"].get("taints") or ()}


def is_out(cluster: Cluster, node: str) -> bool:
    """True when *node* is out by our doing."""
    return names.TAINT in taints(cluster, node)


def conditions(cluster: Cluster, kind: str, name: str) -> dict[str, str]:
    found = cluster.get(kind, name) or {}
    return {each["type"]: each["status"] for each in found["status"].get("conditions") or ()}


def reasons(cluster: Cluster, name: str) -> set[str]:
    """The reasons of our events about the object *name*."""
    events = cluster.objects("events")
    ours = [each for each in events if each["source"].get("component") == names.MANAGER]
    return {each["reason"] for each in ours if each["involvedObject"]["name"] == name}
