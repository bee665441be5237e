"""The chart on a test cluster: the image built from operator/Dockerfile, installed by helm, and nodes mended after a test."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from charts.image_context import CHECKOUT, lay_out
from tests.e2e.kubernetes.cluster import BASE_IMAGE, GPU, MACHINE, Cluster, Node
from wheeltapper import kubernetes_names as names

CHART = CHECKOUT / "charts/wheeltapper"
RELEASE = "wheeltapper"
NAMESPACE = "wheeltapper"
REPOSITORY, TAG = "localhost/wheeltapper", "test"
IMAGE = f"{REPOSITORY}:{TAG}"

PYTHON_OF_BASE = "3.11"
"""The Python of the cluster's base image, as its README says."""

INSTALL_S = 240

AGENTS = "app.kubernetes.io/component=agent"

CONFIG: dict[str, Any] = {
    "policy": {"mode": "full"},
    # All nodes share one machine: how busy that is, and what it had to kill, is no fault of a node.
    "checks": {
        "off": ["fs_full", "hung_tasks", "load", "memory_free", "oom_kills", "pressure", "swap", "tcp_retransmits"]
    },
}

VALUES: dict[str, Any] = {
    "image": {"repository": REPOSITORY, "tag": TAG, "pullPolicy": "Never"},
    "config": CONFIG,
    "agent": {
        # Each node of the test cluster has a kernel log of its own.
        "host": {"kernelLog": f"{MACHINE}/kmsg"},
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "node-role.kubernetes.io/control-plane", "operator": "DoesNotExist"},
                                {"key": "type", "operator": "NotIn", "values": ["kwok"]},
                            ]
                        }
                    ]
                }
            }
        },
    },
}

WITH_PREFLIGHT: dict[str, Any] = {
    **VALUES,
    "config": {**CONFIG, "kubernetes": {"preflight": {"enabled": True}}},
}


def build_image(cluster: Cluster, scratch: Path) -> None:
    """Build the project's image from this checkout in *scratch*, and bring it onto all nodes."""
    cluster.build(lay_out(PYTHON_OF_BASE, scratch / "image"), IMAGE, BASE=BASE_IMAGE, PIP_NO_INDEX="1")


def install(cluster: Cluster, values: Mapping[str, Any] = VALUES) -> None:
    """Install the chart and wait until its pods are ready."""
    file = cluster.folder / "values.yaml"
    file.write_text(yaml.safe_dump(dict(values)))
    cluster.apply(
        {
            "apiVersion": "v1",
            "kind": "Namespace",
            # One container of each agent is privileged.
            "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "privileged"}},
        }
    )
    cluster.helm(
        "install", RELEASE, str(CHART), f"--namespace={NAMESPACE}", f"--values={file}",
        "--wait", f"--timeout={INSTALL_S}s", timeout=INSTALL_S + 30,
    )  # fmt: skip


def uninstall(cluster: Cluster) -> None:
    """Uninstall the chart, which must leave nothing on nodes and jobs, and delete what it leaves by design."""
    cluster.helm(
        "uninstall", RELEASE, f"--namespace={NAMESPACE}", "--ignore-not-found", "--wait", f"--timeout={INSTALL_S}s",
        timeout=INSTALL_S + 30,
    )  # fmt: skip
    cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found", timeout=120)
    kinds = [f"{kind}.{names.PREFIX}" for kind in ("interruptions", "nodehealths")]
    cluster.kubectl("delete", "customresourcedefinition", *kinds, "--ignore-not-found")


@contextmanager
def installed(cluster: Cluster, scratch: Path) -> Iterator[None]:
    """The chart, built and installed in mode full, and gone again afterwards."""
    build_image(cluster, scratch)
    install(cluster)
    try:
        yield
    finally:
        uninstall(cluster)


def is_trusted(cluster: Cluster) -> bool:
    """True when the API server has been told whom to trust for the webhook: from now on it is asked about pods."""
    found = cluster.get("mutatingwebhookconfiguration", "wheeltapper-preflight")
    return bool(found and found["webhooks"][0]["clientConfig"].get("caBundle"))


def liking(job: dict[str, Any], node: str = "") -> dict[str, Any]:
    """Return *job* with one GPU for each rank, and pods that like *node* best, if one is named."""
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    terms = [{"weight": 100, "preference": {"matchExpressions": [expression]}}]
    for replica in job["spec"]["pytorchReplicaSpecs"].values():
        spec = replica["template"]["spec"]
        if node:
            spec["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}
        spec["containers"][0]["resources"] = {"limits": {GPU: "1"}}
    return job


def agent_on(cluster: Cluster, node: str) -> str:
    """The name of the agent's pod on *node*."""
    pods = cluster.objects("pods", NAMESPACE, AGENTS)
    return next(pod["metadata"]["name"] for pod in pods if pod["spec"].get("nodeName") == node)


def verdict(cluster: Cluster, node: str) -> str:
    """What the agent of *node* has told the cluster: ``ok``, ``fail``; empty when nothing yet."""
    return str(((cluster.get("nodehealth", node) or {}).get("status") or {}).get("verdict", ""))


def forget(node: Node) -> None:
    """Take away the faults in the kernel log of *node* and what its agent remembers of them."""
    node.kmsg.write_text("")
    node.run("find", "/var/lib/wheeltapper", "-mindepth", "1", "-delete")


def mend(cluster: Cluster, node: Node) -> None:
    """Make *node* as good as new: no fault in its kernel log, none that its agent remembers, and none that anybody holds
    against it. A machine would be replaced; here its agent begins anew."""
    forget(node)
    cluster.kubectl("delete", "pod", agent_on(cluster, node.name), f"--namespace={NAMESPACE}", "--grace-period=1")
    cluster.wait(lambda: verdict(cluster, node.name) == "ok", 120, f"a new agent on {node.name}")
    found = cluster.get("node", node.name) or {}
    taints = [taint for taint in found["spec"].get("taints") or () if taint["key"] != names.TAINT]
    ours = dict.fromkeys((names.QUARANTINE, names.HISTORY))
    patch = {"metadata": {"annotations": ours}, "spec": {"unschedulable": None, "taints": taints or None}}
    cluster.kubectl("patch", "node", node.name, "--type=merge", f"--patch={json.dumps(patch)}")
