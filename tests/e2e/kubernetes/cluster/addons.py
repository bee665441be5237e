"""What a training cluster has on top: training-operator with its webhook, and GPUs from a fake device plugin."""

from __future__ import annotations

import shutil
from typing import Any

import yaml

from tests.e2e.kubernetes.cluster.cluster import Cluster
from tests.e2e.kubernetes.cluster.errors import CommandFailed
from tests.e2e.kubernetes.cluster.images import BASE_IMAGE, DEVICE_PLUGIN_IMAGE, TRAINING_OPERATOR_IMAGE
from tests.e2e.kubernetes.cluster.node import MACHINE

GPU = "nvidia.com/gpu"
DEVICE_PLUGINS = "/var/lib/kubelet/device-plugins"

READY_S = 300.0
"""Seconds until everything must be ready; it takes about 20 on a machine that is not overloaded."""


def install(cluster: Cluster) -> None:
    """Install everything; :func:`wait` waits until it works."""
    _install_training_operator(cluster)
    cluster.apply(_device_plugin())


def wait(cluster: Cluster) -> None:
    """Wait until jobs can be made, names be resolved and GPUs be asked for.

    Raises:
        NotInTime: something did not come; the message shows pods and events.
    """
    for namespace, name in (("kube-system", "coredns"), ("kubeflow", "training-operator")):
        cluster.wait_condition("deployment", name, "Available", namespace, READY_S)
    cluster.wait(lambda: _webhook_answers(cluster), READY_S, "training-operator's webhook to let a job pass")
    for node in cluster.workers:
        cluster.wait(lambda node=node: gpus(cluster, node.name) == len(node.gpus), READY_S, f"the GPUs of {node.name}")  # type: ignore[misc]


def gpus(cluster: Cluster, node: str) -> int:
    """How many GPUs of *node* the scheduler may give away."""
    found = cluster.get("node", node) or {}
    return int(found.get("status", {}).get("allocatable", {}).get(GPU, 0))


def pytorch_job(name: str, workers: int, container: dict[str, Any], policy: str = "Never") -> dict[str, Any]:
    """A PyTorchJob with one master and *workers*; *container* is what a rank runs, on the base image unless it names one."""
    training = {"name": "pytorch", "image": BASE_IMAGE, "imagePullPolicy": "Never", **container}
    spec = {"terminationGracePeriodSeconds": 2, "containers": [training]}
    replica = {"restartPolicy": policy, "template": {"spec": spec}}
    replicas = {"Master": {"replicas": 1, **replica}}
    if workers:
        replicas["Worker"] = {"replicas": workers, **replica}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"runPolicy": {"cleanPodPolicy": "None"}, "pytorchReplicaSpecs": replicas},
    }


def _install_training_operator(cluster: Cluster) -> None:
    folder = cluster.folder / "training-operator"
    shutil.copytree(cluster.cache.training_operator, folder / "manifests")
    image, _, tag = TRAINING_OPERATOR_IMAGE.rpartition(":")
    container = "/spec/template/spec/containers/0"
    changes = [
        {"op": "add", "path": f"{container}/args", "value": [f"--pytorch-init-container-image={BASE_IMAGE}"]},
        # Ask every second whether it is ready, not after 10 and then every 15.
        {"op": "replace", "path": f"{container}/readinessProbe/initialDelaySeconds", "value": 1},
        {"op": "replace", "path": f"{container}/readinessProbe/periodSeconds", "value": 1},
    ]
    overlay = {
        "resources": ["manifests/overlays/standalone"],
        "images": [{"name": "kubeflow/training-operator", "newName": image, "newTag": tag}],
        "patches": [{"target": {"kind": "Deployment"}, "patch": yaml.safe_dump(changes)}],
    }
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    # On the server's side: the CRDs are too large for the annotation that a client would keep.
    cluster.kubectl("apply", "--server-side", "--kustomize", str(folder), timeout=READY_S)


def _webhook_answers(cluster: Cluster) -> bool:
    """True when the API server reaches the webhook: nothing is stored, but it is asked."""
    job = pytorch_job("is-the-webhook-there", 0, {"command": ["true"]})
    try:
        cluster.kubectl("create", "--dry-run=server", "--filename", "-", stdin=yaml.safe_dump(job))
    except CommandFailed:
        return False
    return True


def _device_plugin() -> dict[str, Any]:
    volumes = {"kubelet": DEVICE_PLUGINS, "machine": MACHINE}
    name = {"app": "fake-gpus"}
    not_control_plane = {"key": "node-role.kubernetes.io/control-plane", "operator": "DoesNotExist"}
    terms = [{"matchExpressions": [not_control_plane, {"key": "type", "operator": "NotIn", "values": ["kwok"]}]}]
    pod = {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}},
        # A node that is tainted keeps its GPUs.
        "tolerations": [{"operator": "Exists"}],
        "priorityClassName": "system-node-critical",
        "terminationGracePeriodSeconds": 1,
        "containers": [
            {
                "name": "plugin",
                "image": DEVICE_PLUGIN_IMAGE,
                "imagePullPolicy": "Never",
                "env": [{"name": "GPUS", "value": f"{MACHINE}/gpus"}],
                "volumeMounts": [{"name": key, "mountPath": path} for key, path in volumes.items()],
            }
        ],
        "volumes": [{"name": key, "hostPath": {"path": path}} for key, path in volumes.items()],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "fake-gpus", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": name}, "template": {"metadata": {"labels": name}, "spec": pod}},
    }
