"""A running cluster, as tests use it: its nodes, kubectl and helm, images, and waiting for what they show."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import yaml

from tests.e2e.kubernetes.cluster import images
from tests.e2e.kubernetes.cluster.cache import Cache
from tests.e2e.kubernetes.cluster.docker import Docker
from tests.e2e.kubernetes.cluster.errors import ClusterError, CommandFailed, NotInTime
from tests.e2e.kubernetes.cluster.node import Node
from tests.e2e.kubernetes.cluster.walls import in_network

T = TypeVar("T")

POLL_S = 0.1

MARK = "wheeltapper-test-cluster"
"""The ConfigMap in kube-system that says which folder a cluster belongs to: no other cluster is ever written to."""

_ELSEWHERE = ("--kubeconfig", "--context", "--kube-context", "--cluster", "--server", "--kube-apiserver", "-s")
"""Options by which a command would go to another cluster."""


class Cluster:
    """A cluster that was made in *folder*. ``nodes`` are its workers, by name, in order.

    ``kubeconfig`` works in any process of this machine. ``walls`` is a process in its network, 0 where that is the
    machine's own.
    """

    def __init__(self, folder: Path, name: str, *, cache: Cache, docker: Docker, walls: int, nodes: list[Node]) -> None:
        self.folder = folder
        self.name = name
        self.cache = cache
        self.docker = docker
        self.walls = walls
        self.nodes = {node.name: node for node in nodes}
        self.kubeconfig = folder / "kubeconfig"
        self.context = f"kind-{name}"

    @property
    def workers(self) -> list[Node]:
        return list(self.nodes.values())

    @property
    def environment(self) -> dict[str, str]:
        """What a program starts with that shall find this cluster and no other."""
        kept = {key: value for key, value in os.environ.items() if not key.startswith("KUBE")}
        path = f"{self.cache.bin}:{kept.get('PATH', '')}"
        return {**kept, "PATH": path, "KUBECONFIG": str(self.kubeconfig), **_helm_folders(self.folder)}

    # Commands

    def kubectl(self, *words: str, stdin: str | None = None, check: bool = True, timeout: float = 60.0) -> str:
        """Run kubectl against this cluster and return what it printed.

        Raises:
            CommandFailed: it returned non-zero and *check* is set.
            NotInTime: it had to be ended.
        """
        return self._run("kubectl", (f"--context={self.context}", *words), stdin, check, timeout)

    def helm(self, *words: str, check: bool = True, timeout: float = 120.0) -> str:
        """Run helm against this cluster and return what it printed; raises as :meth:`kubectl` does."""
        return self._run("helm", (f"--kube-context={self.context}", *words), None, check, timeout)

    def apply(self, *objects: Mapping[str, Any] | str | Path) -> None:
        """Create or change objects: mappings, YAML text, or files. The server's own validation is strict."""
        for item in objects:
            if isinstance(item, Path):
                self.kubectl("apply", "--server-side", "--filename", str(item))
            else:
                text = item if isinstance(item, str) else json.dumps(item)
                self.kubectl("apply", "--server-side", "--filename", "-", stdin=text)

    def get(self, kind: str, name: str, namespace: str = "default") -> dict[str, Any] | None:
        """One object, or None where there is none of that name."""
        text = self.kubectl("get", kind, name, f"--namespace={namespace}", "--ignore-not-found", "--output=json")
        return json.loads(text) if text.strip() else None

    def objects(self, kind: str, namespace: str = "default", selector: str = "") -> list[dict[str, Any]]:
        """All objects of a *kind*, of those that a label *selector* names where one is given."""
        words = ["get", kind, f"--namespace={namespace}", "--output=json"]
        found: list[dict[str, Any]] = json.loads(
            self.kubectl(*words, *([f"--selector={selector}"] if selector else []))
        )["items"]
        return found

    def inside(self, *argv: str) -> list[str]:
        """The command line that runs *argv* in the cluster's network, where addresses of nodes, pods and services work."""
        return in_network(self.walls, argv) if self.walls else list(argv)

    def _run(self, program: str, words: tuple[str, ...], stdin: str | None, check: bool, timeout: float) -> str:
        for word in words[1:]:
            if word == "--":
                break
            if word.split("=", 1)[0] in _ELSEWHERE:
                raise ClusterError(f"`{program} … {word}` would go to another cluster than the one in {self.folder}")
        command = [str(self.cache.bin / program), *words]
        try:
            ended = subprocess.run(
                command, input=stdin, capture_output=True, text=True, check=False, timeout=timeout, env=self.environment
            )
        except subprocess.TimeoutExpired as error:
            raise NotInTime(f"`{program} {' '.join(words)}` did not end within {timeout:g} s") from error
        if check and ended.returncode != 0:
            raise CommandFailed([program, *words], ended)
        return ended.stdout

    # Images

    def build(self, folder: Path, image: str, **arguments: str) -> None:
        """Build *image* (``localhost/wheeltapper:test``) from the Dockerfile in *folder*, without a network, and load it."""
        images.build(self.docker, folder, image, arguments)
        with tempfile.TemporaryDirectory(dir=self.folder) as scratch:
            archive = Path(scratch, "image.tar")
            self.docker.call("save", "--output", str(archive), image)
            self.load(archive)

    def load(self, archive: Path) -> None:
        """Bring the images of an archive onto all nodes; pods use them with imagePullPolicy Never or IfNotPresent."""
        command = self.inside(
            str(self.cache.bin / "kind"), "load", "image-archive", str(archive), f"--name={self.name}"
        )
        ended = subprocess.run(command, capture_output=True, text=True, check=False, env=self.docker.environment)
        if ended.returncode != 0:
            raise CommandFailed(command, ended)

    # Waiting

    def wait(self, condition: Callable[[], T | None], timeout: float, why: str) -> T:
        """Call *condition* until it returns something true, and return that.

        Raises:
            NotInTime: it did not within *timeout* seconds; the message says *why*, and what pods and events show.
        """
        deadline = time.monotonic() + timeout
        while True:
            result = condition()
            if result:
                return result
            if time.monotonic() > deadline:
                raise NotInTime(f"Waited {timeout:g} s for {why}, in vain.\n\n{self.story()}")
            time.sleep(POLL_S)

    def wait_condition(
        self, kind: str, name: str, condition: str, namespace: str = "default", timeout: float = 60.0
    ) -> dict[str, Any]:
        """Wait until an object's *condition* (``Succeeded``, ``Ready``) is True, and return the object."""

        def there() -> dict[str, Any] | None:
            found = self.get(kind, name, namespace)
            held = (found or {}).get("status", {}).get("conditions") or []
            return found if any(one["type"] == condition and one["status"] == "True" for one in held) else None

        return self.wait(there, timeout, f"{kind} {namespace}/{name} to be {condition}")

    def story(self) -> str:
        """What a person would look at first when something did not happen."""
        pods = self.kubectl("get", "pods", "--all-namespaces", "--output=wide", check=False)
        events = self.kubectl("get", "events", "--all-namespaces", "--sort-by=.lastTimestamp", check=False)
        last = "\n".join(events.splitlines()[-25:])
        return f"{self.kubectl('get', 'nodes', check=False)}\n{pods}\n{last}"

    # Belonging

    def check_mark(self) -> None:
        """Return when the cluster that the kubeconfig leads to is the one that was made in this folder.

        Raises:
            ClusterError: it is another one.
        """
        found = self.get("configmap", MARK, "kube-system")
        if found is None or found["data"]["folder"] != str(self.folder):
            raise ClusterError(
                f"{self.kubeconfig} leads to a cluster that was not made in {self.folder}: it is left alone"
            )

    def set_mark(self) -> None:
        """Write down in the cluster which folder it belongs to."""
        mark = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": MARK, "namespace": "kube-system"}}
        self.apply({**mark, "data": {"folder": str(self.folder)}})


def point_at(kubeconfig: Path, server: str, target: Path) -> None:
    """Write a copy of *kubeconfig* to *target* that finds the API server at *server*, for the owner's eyes only."""
    config = yaml.safe_load(kubeconfig.read_text())
    for cluster in config["clusters"]:
        cluster["cluster"]["server"] = server
    target.touch(mode=0o600)
    target.write_text(yaml.safe_dump(config))


def _helm_folders(folder: Path) -> dict[str, str]:
    """Folders of helm's own, so that a person's plug-ins and repositories play no part."""
    return {f"HELM_{part}_HOME": str(folder / "helm" / part.lower()) for part in ("CACHE", "CONFIG", "DATA")}
