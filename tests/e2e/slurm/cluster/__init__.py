"""A real, private Slurm cluster on one machine, as a library of the tests and of the demo.

::

    with Cluster(folder, nodes=4, config={"policy": {"mode": "full"}}) as cluster:
        job = cluster.sbatch("srun hostname", "--nodes=2")
        cluster.node("node1").xid(79)
        cluster.wait_job(job, "COMPLETED")

munged, slurmctld, one slurmd per node, and Wheeltapper's own agent and controller service run inside PID, mount,
network, UTS and IPC namespaces of the cluster's own. Only ``folder`` is shared with the machine, under the same path inside
and outside; when the owner of the cluster goes, however it goes, everything in it goes too.
"""

from tests.e2e.slurm.cluster.cluster import Cluster
from tests.e2e.slurm.cluster.daemon import Daemon
from tests.e2e.slurm.cluster.errors import ClusterError, CommandFailed, NotInTime, Unavailable
from tests.e2e.slurm.cluster.hooks import Hooks
from tests.e2e.slurm.cluster.node import Node
from tests.e2e.slurm.cluster.requirements import ensure_installed, require
from tests.e2e.slurm.cluster.settings import QUICK_SCHEDULING

__all__ = [
    "QUICK_SCHEDULING",
    "Cluster",
    "ClusterError",
    "CommandFailed",
    "Daemon",
    "Hooks",
    "Node",
    "NotInTime",
    "Unavailable",
    "ensure_installed",
    "require",
]
