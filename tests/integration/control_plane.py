"""A real API server with its etcd, on loopback and without nodes: enough for everything that needs no kubelet."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.kubernetes.cluster import cache

CHARTS = Path(__file__).parents[2] / "charts/wheeltapper/crds"
TOKEN = "the-token-of-an-admin"
LIMITED = "the-token-of-a-user-without-rights"

READY_S = 120.0
"""Seconds until it must answer; it takes 4 on a machine that is not overloaded."""


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A running one. ``account`` is a folder as the kubelet makes it for a pod's service account.

    ``kubeconfig`` is an administrator's, ``limited`` that of a user named limited who may do what tests grant.
    """

    kubeconfig: Path
    limited: Path
    port: int
    account: Path

    @property
    def environment(self) -> dict[str, str]:
        """What a pod is told of the API server."""
        return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.port)}


@contextmanager
def control_plane(folder: Path) -> Iterator[ControlPlane]:
    """Start one in *folder*; skip the test where its programs were not built."""
    programs = cache.find().bin
    if not all((programs / name).exists() for name in ("etcd", "kube-apiserver", "kubectl")):
        pytest.skip("there is no API server to start; type: make kubernetes")
    client, peer, port = _free_ports(3)
    subprocess.run(["openssl", "genrsa", "-out", folder / "sa.key", "2048"], check=True, capture_output=True)
    (folder / "tokens.csv").write_text(f"{TOKEN},admin,admin,system:masters\n{LIMITED},limited,limited\n")
    etcd = [
        programs / "etcd", "--data-dir", folder / "etcd", "--unsafe-no-fsync",
        f"--listen-client-urls=http://127.0.0.1:{client}", f"--advertise-client-urls=http://127.0.0.1:{client}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
    ]  # fmt: skip
    server = [
        programs / "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{client}", "--bind-address=127.0.0.1",
        f"--secure-port={port}", f"--cert-dir={folder / 'certs'}", f"--token-auth-file={folder / 'tokens.csv'}",
        f"--service-account-key-file={folder / 'sa.key'}", f"--service-account-signing-key-file={folder / 'sa.key'}",
        "--service-account-issuer=https://kubernetes.default.svc", "--authorization-mode=RBAC",
        "--service-cluster-ip-range=10.96.0.0/16", "--disable-admission-plugins=ServiceAccount",
    ]  # fmt: skip
    with ExitStack() as stack:
        for name, command in (("etcd", etcd), ("kube-apiserver", server)):
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(command, stdout=log, stderr=log)
            stack.callback(process.wait)
            stack.callback(process.kill)
        _wait(port, folder)
        configs = [_kubeconfig(folder, port, name, token) for name, token in (("admin", TOKEN), ("limited", LIMITED))]
        made = ControlPlane(*configs, port, _account(folder))
        apply = [programs / "kubectl", "--kubeconfig", made.kubeconfig, "apply", "--filename", CHARTS]
        subprocess.run(apply, check=True, capture_output=True)
        yield made


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [each.getsockname()[1] for each in sockets]


def free_port() -> int:
    """A port of loopback that nobody listens at."""
    return _free_ports(1)[0]


def _wait(port: int, folder: Path) -> None:
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
                last = (folder / "kube-apiserver.log").read_text(errors="replace")[-2000:]
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
