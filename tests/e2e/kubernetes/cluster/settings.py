"""What kind is told: how many nodes, with which folders in them, and what differs on a node image of our own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.kubernetes.cluster.images import COREDNS_TAG, ETCD_TAG, REPOSITORY
from tests.e2e.kubernetes.cluster.node import MACHINE, Node

_KUBELET: dict[str, Any] = {
    "kind": "KubeletConfiguration",
    # A changed secret reaches the pods that have mounted it with the next look at them; a minute is long for a webhook
    # that waits for its certificate.
    "syncFrequency": "5s",
}

_KUBELET_OF_OUR_OWN = {"cgroupDriver": "cgroupfs", "failCgroupV1": False}

_CLUSTER_OF_OUR_OWN: dict[str, Any] = {
    "kind": "ClusterConfiguration",
    "imageRepository": REPOSITORY,
    "dns": {"imageTag": COREDNS_TAG},
    # The cluster does not outlive its tests: what is not on the disk yet may be lost with the machine.
    "etcd": {"local": {"imageTag": ETCD_TAG, "extraArgs": {"unsafe-no-fsync": "true"}}},
}


def control_plane(cluster: str) -> str:
    """The name that kind gives the control plane of *cluster*."""
    return f"{cluster}-control-plane"


def node_names(cluster: str, workers: int) -> list[str]:
    """The names that kind gives the workers of *cluster*."""
    return [f"{cluster}-worker{number if number > 1 else ''}" for number in range(1, workers + 1)]


def kind_config(cluster: str, nodes: Sequence[Node], stores: Path | None) -> str:
    """kind's configuration for one control plane and the workers *nodes*.

    *stores* has a data folder for each node's containerd, by the node's name; None where the published node image is used.
    """
    own = {} if stores is None else {"networking": {"disableDefaultCNI": True, "kubeProxyMode": "nftables"}}
    patches = [_KUBELET] if stores is None else [_CLUSTER_OF_OUR_OWN, {**_KUBELET, **_KUBELET_OF_OUR_OWN}]
    folders = [(control_plane(cluster), []), *((node.name, [_mount(node.folder, MACHINE)]) for node in nodes)]
    config: dict[str, Any] = {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "nodes": [
            {
                "role": "worker" if name != control_plane(cluster) else "control-plane",
                "extraMounts": mounts if stores is None else [*mounts, _mount(stores / name, "/var/lib/containerd")],
            }
            for name, mounts in folders
        ],
        **own,
        "kubeadmConfigPatches": [yaml.safe_dump(patch) for patch in patches],
    }
    return str(yaml.safe_dump(config, sort_keys=False))


def _mount(folder: Path, inside: str) -> dict[str, str]:
    return {"hostPath": str(folder), "containerPath": inside}
