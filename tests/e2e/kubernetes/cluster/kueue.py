"""Kueue, for tests of jobs that wait in a queue: no cluster has it unless a test installs it."""

from __future__ import annotations

import shutil
from typing import Any

import yaml

from tests.e2e.kubernetes.cluster.addons import READY_S
from tests.e2e.kubernetes.cluster.cluster import Cluster
from tests.e2e.kubernetes.cluster.errors import CommandFailed
from tests.e2e.kubernetes.cluster.images import KUEUE_IMAGE

NAMESPACE = "kueue-system"
CONTROLLER = "kueue-controller-manager"

_API = "kueue.x-k8s.io/v1beta2"

_CONFIGURATION = {
    "apiVersion": "config.kueue.x-k8s.io/v1beta2",
    "kind": "Configuration",
    "health": {"healthProbeBindAddress": ":8081"},
    "webhook": {"port": 9443},
    "leaderElection": {"leaderElect": False},
    "integrations": {"frameworks": ["kubeflow.org/pytorchjob"]},
    "featureGates": {"VisibilityOnDemand": False},
}
"""PyTorchJobs, and nothing that the queue itself can do without."""


def install(cluster: Cluster) -> None:
    """Install Kueue from its own manifests, and wait until queues can be made.

    Raises:
        NotInTime: it did not come; the message shows pods and events.
    """
    folder = cluster.folder / "kueue"
    shutil.copytree(cluster.cache.kueue, folder / "config")
    (folder / "config/components/manager/controller_manager_config.yaml").write_text(yaml.safe_dump(_CONFIGURATION))
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(_overlay()))
    cluster.kubectl("apply", "--server-side", "--kustomize", str(folder), timeout=READY_S)
    cluster.wait_condition("deployment", CONTROLLER, "Available", NAMESPACE, READY_S)
    cluster.wait(lambda: _webhooks_answer(cluster), READY_S, "Kueue's webhooks to let a ResourceFlavor pass")


def _webhooks_answer(cluster: Cluster) -> bool:
    """True when the API server reaches them: nothing is stored, but they are asked."""
    text = yaml.safe_dump(_flavor("are-they-there"))
    try:
        cluster.kubectl("create", "--dry-run=server", "--filename", "-", stdin=text)
    except CommandFailed:
        return False
    return True


def make_queue(cluster: Cluster, name: str, quota: dict[str, str | int]) -> None:
    """Make the queue *name* of the namespace default, with a *quota* by resource (``nvidia.com/gpu``) of its own."""
    resources = [{"name": resource, "nominalQuota": amount} for resource, amount in quota.items()]
    group = {"coveredResources": list(quota), "flavors": [{"name": name, "resources": resources}]}
    cluster.apply(
        _flavor(name),
        {
            "apiVersion": _API,
            "kind": "ClusterQueue",
            "metadata": {"name": name},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
        },
        {
            "apiVersion": _API,
            "kind": "LocalQueue",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"clusterQueue": name},
        },
    )
    cluster.wait_condition("clusterqueue", name, "Active")
    cluster.wait_condition("localqueue", name, "Active")


def _flavor(name: str) -> dict[str, Any]:
    return {"apiVersion": _API, "kind": "ResourceFlavor", "metadata": {"name": name}}


def _overlay() -> dict[str, Any]:
    container = "/spec/template/spec/containers/0"
    changes = [
        {"op": "replace", "path": f"{container}/image", "value": KUEUE_IMAGE},
        {"op": "replace", "path": f"{container}/imagePullPolicy", "value": "Never"},
        {"op": "replace", "path": f"{container}/resources", "value": {"requests": {"cpu": "50m", "memory": "64Mi"}}},
        # Ask every second whether it is ready, not after 5 and then every 10.
        {"op": "replace", "path": f"{container}/readinessProbe/initialDelaySeconds", "value": 1},
        {"op": "replace", "path": f"{container}/readinessProbe/periodSeconds", "value": 1},
    ]
    # An API that nobody serves would make every look at the cluster's kinds fail.
    gone = {"$patch": "delete", "apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}
    without = [
        {"patch": yaml.safe_dump({**gone, "metadata": {"name": f"{version}.visibility.kueue.x-k8s.io"}})}
        for version in ("v1beta1", "v1beta2")
    ]
    return {
        "resources": ["config/default"],
        "patches": [{"target": {"kind": "Deployment"}, "patch": yaml.safe_dump(changes)}, *without],
    }
