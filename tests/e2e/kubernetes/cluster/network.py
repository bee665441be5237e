"""The pods' network where kind's own can't be had: a bridge on each node, and a route from each node to all others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.e2e.kubernetes.cluster.cluster import Cluster

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
    nodes = cluster.objects("nodes")

    def set_up(node: Mapping[str, Any]) -> None:
        routes = [word for other in nodes if other is not node for word in (other["spec"]["podCIDR"], _address(other))]
        network = _conflist(node["spec"]["podCIDR"])
        cluster.docker.call("exec", node["metadata"]["name"], "sh", "-c", _SET_UP, "sh", network, *routes)

    with ThreadPoolExecutor() as pool:
        list(pool.map(set_up, nodes))


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
