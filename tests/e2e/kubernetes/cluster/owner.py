"""Whoever starts a cluster owns it: it ends with the owner, however that ends, and leaves nothing behind."""

from __future__ import annotations

import logging
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from tests.e2e.kubernetes.cluster import addons, cache, network
from tests.e2e.kubernetes.cluster.build import complete
from tests.e2e.kubernetes.cluster.cache import Cache
from tests.e2e.kubernetes.cluster.cluster import Cluster, point_at
from tests.e2e.kubernetes.cluster.docker import Docker, PrivateDocker, copy_containerd, copy_docker
from tests.e2e.kubernetes.cluster.errors import CommandFailed, NotInTime, Unavailable
from tests.e2e.kubernetes.cluster.node import Node
from tests.e2e.kubernetes.cluster.node_image import NODE_IMAGE
from tests.e2e.kubernetes.cluster.requirements import PUBLISHED_NODE_IMAGE, is_private, require
from tests.e2e.kubernetes.cluster.settings import control_plane, kind_config, node_names
from tests.e2e.kubernetes.cluster.walls import in_network

CREATE_S = 600.0
"""Seconds that kind may take; about 40 on a machine that is not overloaded."""

KIND_CONFIG = "kind.yaml"

_log = logging.getLogger(__name__)

# Where the machine's own Docker holds the nodes, they would outlive a killed owner: the shell waits for its end.
_AFTER_ME = 'cat; exec "$1" delete cluster --name "$2"'


def check(command: str = "") -> None:
    """Return when a cluster can be started here and now; *command* is what root is told to type.

    Raises:
        Unavailable: it cannot; the message says why and what to type.
    """
    private = is_private()
    require(private, command)
    if not complete(cache.find(), private):
        raise Unavailable("what a Kubernetes cluster is made of is not built yet; type: make kubernetes")


@contextmanager
def started(folder: Path, *, workers: int = 3, gpus: int = 2) -> Iterator[Cluster]:
    """Start a cluster of one control plane and *workers* with *gpus* each in *folder*, and end it afterwards.

    It is ready when it is handed over: jobs can be made, names resolved, GPUs asked for.

    Raises:
        Unavailable: no cluster can be made here.
        ClusterError: a part did not start; the message says which, and holds its last words.
    """
    check()
    began = time.monotonic()
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        cluster = (
            _private(stack, folder, workers, gpus) if is_private() else _on_the_machine(stack, folder, workers, gpus)
        )
        cluster.set_mark()
        addons.install(cluster)
        if cluster.walls:
            cluster.wait(lambda: network.has_addresses(cluster), addons.READY_S, "the nodes' ranges of addresses")
            network.connect(cluster)
        addons.wait(cluster)
        _log.info("The cluster in %s is ready after %.0f s.", folder, time.monotonic() - began)
        yield cluster


def _private(stack: ExitStack, folder: Path, workers: int, gpus: int) -> Cluster:
    """A cluster in a Docker of its own."""
    here = cache.find()
    name = "wheeltapper"
    place = here.running / secrets.token_hex(4)
    private = PrivateDocker(place / "docker", place, folder / "docker.log")
    stack.callback(shutil.rmtree, place, ignore_errors=True)
    stack.callback(private.stop)
    copy_docker(here.docker, place / "docker")
    nodes = _make_nodes(name, folder, workers, gpus, private.docker)
    for node in (control_plane(name), *(node.name for node in nodes)):
        copy_containerd(here.containerd, place / node)
    private.start()
    cluster = Cluster(folder, name, cache=here, docker=private.docker, walls=private.walls.pid, nodes=nodes)
    (folder / KIND_CONFIG).write_text(kind_config(name, nodes, place))
    inner = folder / "kubeconfig.inside"
    _create(cluster, in_network(cluster.walls, _kind(here, name, NODE_IMAGE, inner)))
    _forward(private, cluster, inner)
    return cluster


def _on_the_machine(stack: ExitStack, folder: Path, workers: int, gpus: int) -> Cluster:
    """A cluster in the machine's own Docker, on the published node image."""
    here = cache.find()
    docker = Docker()
    name = f"wheeltapper-{secrets.token_hex(3)}"
    nodes = _make_nodes(name, folder, workers, gpus, docker)
    cluster = Cluster(folder, name, cache=here, docker=docker, walls=0, nodes=nodes)
    (folder / KIND_CONFIG).write_text(kind_config(name, nodes, None))
    with (folder / "kind-delete.log").open("wb") as log:
        after_me = subprocess.Popen(
            ["sh", "-c", _AFTER_ME, "sh", str(here.bin / "kind"), name],
            stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True, env=docker.environment,
        )  # fmt: skip
    stack.callback(after_me.communicate)
    _create(cluster, _kind(here, name, PUBLISHED_NODE_IMAGE, cluster.kubeconfig))
    cluster.load(here.archive)
    return cluster


def _make_nodes(cluster: str, folder: Path, workers: int, gpus: int, docker: Docker) -> list[Node]:
    nodes = [Node(name, folder / "nodes" / name, docker) for name in node_names(cluster, workers)]
    for node in nodes:
        node.create(gpus)
    return nodes


def _kind(here: Cache, name: str, image: str, kubeconfig: Path) -> list[str]:
    return [
        str(here.bin / "kind"), "create", "cluster", f"--name={name}", f"--image={image}", "--retain",
        f"--config={kubeconfig.with_name(KIND_CONFIG)}", f"--kubeconfig={kubeconfig}",
    ]  # fmt: skip


def _create(cluster: Cluster, command: list[str]) -> None:
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=CREATE_S, env=cluster.docker.environment
        )
    except subprocess.TimeoutExpired as error:
        raise NotInTime(f"kind did not make a cluster within {CREATE_S:g} s") from error
    (cluster.folder / "kind.log").write_text(ended.stdout + ended.stderr)
    if ended.returncode != 0:
        raise CommandFailed(command, ended)


def _forward(private: PrivateDocker, cluster: Cluster, inner: Path) -> None:
    """Let processes outside reach the API server, on a port of the loopback device."""
    server = urlsplit(yaml.safe_load(inner.read_text())["clusters"][0]["cluster"]["server"])
    program = (sys.executable, str(Path(__file__).with_name("forward.py")))
    with socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        target = (str(listener.fileno()), str(server.hostname), str(server.port))
        private.run_beside((*program, *target), cluster.folder / "forward.log", listener.fileno())
        point_at(inner, f"https://127.0.0.1:{listener.getsockname()[1]}", cluster.kubeconfig)
