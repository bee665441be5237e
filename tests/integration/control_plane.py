"""A real API server with its etcd, on loopback and without nodes: enough for everything that needs no kubelet.

Each part can be ended and started again in the middle of a test. The kernel ends all of them when the process that has
started them ends, however it ends.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest

from tests.e2e.kubernetes.cluster import cache

CHARTS = Path(__file__).parents[2] / "charts/wheeltapper/crds"
TOKEN = "the-token-of-an-admin"
LIMITED = "the-token-of-a-user-without-rights"

READY_S = 120.0
"""Seconds until it must answer; it takes 4 on a machine that is not overloaded."""

PORTS = range(20000, 32000)
"""Below those that Linux gives to clients (from 32768 on): one of these could be gone before etcd listens on it."""

PROGRAMS = ("etcd", "kube-apiserver", "kubectl")

ELSEWHERE = ("--kubeconfig", "--context", "--cluster", "--server", "--user", "--token", "-s")
"""What would send a command to another cluster than ours."""


@dataclass
class Program:
    """One program of it. What it says is in ``log``."""

    command: Sequence[object]
    log: Path
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; the kernel kills it when the thread that did so ends."""
        words = ["setpriv", "--pdeathsig=KILL", *map(str, self.command)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self) -> None:
        """End it without a word, as a machine that loses power does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    @property
    def rss_mb(self) -> float:
        """Its memory in MB."""
        assert self.process is not None
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@dataclass
class ControlPlane:
    """A running one. ``account`` is a folder as the kubelet makes it for a pod's service account.

    ``kubeconfig`` is an administrator's, ``limited`` that of a user named limited who may do what tests grant.
    """

    folder: Path
    port: int
    etcd_url: str
    etcd: Program
    server: Program
    kubeconfig: Path
    limited: Path
    account: Path
    others: list[Program] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where the API server listens."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def authority(self) -> Path:
        """The certificate by which it is known."""
        return self.folder / "certs/apiserver.crt"

    @property
    def processes(self) -> dict[str, int]:
        """The ids of its processes, by name."""
        parts = {"the API server": self.server.process, "etcd": self.etcd.process}
        return {name: process.pid for name, process in parts.items() if process is not None}

    @property
    def environment(self) -> dict[str, str]:
        """What a pod is told of the API server."""
        return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.port)}

    def kubectl(self, *words: str) -> str:
        """Return what kubectl says of this cluster; raise ``ValueError`` for words that name another one."""
        if foreign := [word for word in words if word.split("=")[0] in ELSEWHERE]:
            raise ValueError(f"{' '.join(foreign)} would leave this cluster")
        command = [cache.find().bin / "kubectl", "--kubeconfig", self.kubeconfig, *words]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "KUBECONFIG": os.devnull}
        ended = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
        return ended.stdout

    def wait(self) -> None:
        """Wait until the API server answers."""
        _wait(self.port, self.server)

    def compact(self) -> None:
        """Have etcd forget all versions but the newest of each object."""
        revision = self._etcd("range", {"key": "AA==", "limit": 1})["header"]["revision"]
        self._etcd("compaction", {"revision": revision, "physical": True})

    def controllers(self, *names: str) -> None:
        """Start kube-controller-manager with these controllers alone."""
        manager = Program(
            [
                cache.find().bin / "kube-controller-manager", f"--kubeconfig={self.kubeconfig}",
                f"--controllers={','.join(names)}", "--leader-elect=false", "--bind-address=127.0.0.1",
                f"--secure-port={free_port()}", f"--cert-dir={self.folder / 'manager'}",
            ],
            self.folder / "kube-controller-manager.log",
        )  # fmt: skip
        manager.start()
        self.others.append(manager)

    def end(self) -> None:
        """End all of it."""
        for each in (*self.others, self.server, self.etcd):
            each.kill()

    def _etcd(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(f"{self.etcd_url}/v3/kv/{what}", json.dumps(body).encode())
        with urllib.request.urlopen(request, timeout=READY_S) as answer:
            said: dict[str, Any] = json.load(answer)
        return said


def do_without(why: str) -> NoReturn:
    """Skip the test, since what it needs of a Kubernetes is not here, or fail it where that is required."""
    if os.environ.get("WHEELTAPPER_REQUIRE_KUBERNETES") == "1":
        pytest.fail(why, pytrace=False)
    pytest.skip(why)


def missing() -> str:
    """Return why none can be started here; an empty string when one can."""
    programs = cache.find().bin
    if not all((programs / name).exists() for name in PROGRAMS):
        return "there is no API server to start; type: make kubernetes"
    absent = [name for name in ("openssl", "setpriv") if shutil.which(name) is None]
    return f"{' and '.join(absent)} must be installed" if absent else ""


@contextmanager
def control_plane(folder: Path) -> Iterator[ControlPlane]:
    """Start one in *folder*; where that is not possible, the test does without."""
    if why := missing():
        do_without(why)
    with started(folder) as made:
        yield made


@contextmanager
def started(folder: Path) -> Iterator[ControlPlane]:
    """Start one in *folder*, with our kinds of objects."""
    client, peer, port = _free_ports(3)
    subprocess.run(["openssl", "genrsa", "-out", folder / "sa.key", "2048"], check=True, capture_output=True)
    (folder / "tokens.csv").write_text(f"{TOKEN},admin,admin,system:masters\n{LIMITED},limited,limited\n")
    url = f"http://127.0.0.1:{client}"
    configs = [_kubeconfig(folder, port, name, token) for name, token in (("admin", TOKEN), ("limited", LIMITED))]
    made = ControlPlane(
        folder, port, url, _etcd(folder, url, peer), _server(folder, url, port), *configs, _account(folder)
    )
    try:
        made.etcd.start()
        made.server.start()
        made.wait()
        made.kubectl("apply", "--filename", str(CHARTS))
        yield made
    finally:
        made.end()


def _etcd(folder: Path, url: str, peer: int) -> Program:
    command = [
        cache.find().bin / "etcd", "--data-dir", folder / "etcd", "--unsafe-no-fsync",
        f"--listen-client-urls={url}", f"--advertise-client-urls={url}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}", "--quota-backend-bytes=8589934592",
    ]  # fmt: skip
    return Program(command, folder / "etcd.log")


def _server(folder: Path, etcd: str, port: int) -> Program:
    command = [
        cache.find().bin / "kube-apiserver", f"--etcd-servers={etcd}", "--bind-address=127.0.0.1",
        f"--secure-port={port}", f"--cert-dir={folder / 'certs'}", f"--token-auth-file={folder / 'tokens.csv'}",
        f"--service-account-key-file={folder / 'sa.key'}", f"--service-account-signing-key-file={folder / 'sa.key'}",
        "--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/16", "--disable-admission-plugins=ServiceAccount",
    ]  # fmt: skip
    return Program(command, folder / "kube-apiserver.log")


def _free_ports(count: int) -> list[int]:
    found: set[int] = set()
    while len(found) < count:
        port = random.choice(PORTS)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.add(port)
    return list(found)


def free_port() -> int:
    """A port of loopback that nobody listens at."""
    return _free_ports(1)[0]


def _wait(port: int, server: Program) -> None:
    request = urllib.request.Request(f"https://127.0.0.1:{port}/readyz", headers={"Authorization": f"Bearer {TOKEN}"})
    blind = ssl.create_default_context()
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    deadline = time.monotonic() + READY_S
    while True:
        try:
            with urllib.request.urlopen(request, context=blind, timeout=5):
                return
        except OSError as error:
            if time.monotonic() > deadline:
                last = server.log.read_text(errors="replace")[-2000:]
                pytest.fail(f"the API server did not come up ({error}): {last}")
        time.sleep(0.1)


def _kubeconfig(folder: Path, port: int, user: str, token: str) -> Path:
    path = folder / f"kubeconfig.{user}"
    cluster = {"server": f"https://127.0.0.1:{port}", "certificate-authority": str(folder / "certs/apiserver.crt")}
    made = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": user}}],
        "current-context": "c",
    }
    path.write_text(json.dumps(made))
    return path


def _account(folder: Path) -> Path:
    account = folder / "account"
    account.mkdir()
    (account / "token").write_text(TOKEN)
    (account / "ca.crt").symlink_to(folder / "certs/apiserver.crt")
    return account
