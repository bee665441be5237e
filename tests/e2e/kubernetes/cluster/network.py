"""The pods' network where kind's own can't be had: a bridge on each node, and a route from each node to all others."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from typing import Any

from tests.e2e.kubernetes.cluster.cluster import Cluster
from tests.e2e.kubernetes.cluster.errors import CommandFailed

# The first argument is the configuration for the kubelet's runtime, the others are words of routes.
_SET_UP = """
set -e
printf '%s' "$1" >/etc/cni/net.d/.new
mv /etc/cni/net.d/.new /etc/cni/net.d/10-wheeltapper.conflist
shift
while [ $# -gt 0 ]; do
    ip route replace "$1" via "$2"
    shift 2
done
"""


def connect(cluster: Cluster) -> None:
    """Give all pods a network; the nodes become Ready by it."""
    nodes = {node["metadata"]["name"]: node for node in cluster.objects("nodes")}
    running = []
    for name, node in nodes.items():
        routes = [
            word
            for other in nodes.values()
            if other is not node
            for word in (other["spec"]["podCIDR"], _address(other))
        ]
        command = ["docker", "exec", name, "sh", "-c", _SET_UP, "sh", _conflist(node["spec"]["podCIDR"]), *routes]
        running.append(
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=cluster.docker.environment
            )
        )
    for process in running:
        output, errors = process.communicate()
        if process.returncode != 0:
            raise CommandFailed(
                list(map(str, process.args)) if isinstance(process.args, list) else [str(process.args)],
                subprocess.CompletedProcess(process.args, process.returncode, output, errors),
            )


def has_addresses(cluster: Cluster) -> bool:
    """True when every node has been given a range of addresses for its pods."""
    nodes = cluster.objects("nodes")
    return len(nodes) == len(cluster.nodes) + 1 and all("podCIDR" in node["spec"] for node in nodes)


def _address(node: Mapping[str, Any]) -> str:
    found: str = next(entry["address"] for entry in node["status"]["addresses"] if entry["type"] == "InternalIP")
    return found


def _conflist(subnet: str) -> str:
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "hairpinMode": True,  # a pod may reach itself through its own service
        "ipam": {"type": "host-local", "subnet": subnet, "routes": [{"dst": "0.0.0.0/0"}]},
    }
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "1.0.0", "name": "wheeltapper", "plugins": [bridge, ports]})
