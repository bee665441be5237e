"""A real Kubernetes cluster on one machine, as a library of the tests and of the demo.

::

    with started(folder) as cluster:
        cluster.apply(pytorch_job("train", 2, {"command": ["python3", "-c", "…"]}))
        cluster.wait_condition("pytorchjob", "train", "Succeeded")
        cluster.workers[0].xid(79)

It is kind's: one control plane and three workers, each a container with a kernel log and GPUs of its own, with
training-operator and its webhook. Where the machine has a Docker with the published node image, that is used; elsewhere a
private Docker runs in namespaces of its own, on a node image built from Debian packages and Go modules (``make kubernetes``).
When the owner of the cluster goes, however it goes, everything in it goes too.
"""

from tests.e2e.kubernetes.cluster.addons import GPU, gpus, pytorch_job
from tests.e2e.kubernetes.cluster.cluster import Cluster
from tests.e2e.kubernetes.cluster.errors import ClusterError, CommandFailed, NotInTime, Unavailable
from tests.e2e.kubernetes.cluster.images import BASE_IMAGE
from tests.e2e.kubernetes.cluster.kwok import simulated_nodes
from tests.e2e.kubernetes.cluster.node import MACHINE, Node
from tests.e2e.kubernetes.cluster.owner import check, started
from tests.e2e.kubernetes.cluster.sharing import attached, is_held, shared

__all__ = [
    "BASE_IMAGE",
    "GPU",
    "MACHINE",
    "Cluster",
    "ClusterError",
    "CommandFailed",
    "Node",
    "NotInTime",
    "Unavailable",
    "attached",
    "check",
    "gpus",
    "is_held",
    "pytorch_job",
    "shared",
    "simulated_nodes",
    "started",
]
