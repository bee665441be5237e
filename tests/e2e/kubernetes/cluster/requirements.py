"""What a cluster needs of the machine, and which Docker it uses."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.kubernetes.cluster import golang
from tests.e2e.kubernetes.cluster.docker import Docker
from tests.e2e.kubernetes.cluster.errors import Unavailable

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

PUBLISHED_NODE_IMAGE = "kindest/node:v1.34.0"
"""The node image that kind's own release notes name for the version of it that tools/kubernetes pins."""

RUN_PACKAGE_OF = {
    "dockerd": "docker.io",
    "docker": "docker.io",
    "containerd": "containerd",
    "runc": "runc",
    "iptables": "iptables",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
}
"""Debian's package for each program that a private Docker needs."""

BUILD_PACKAGE_OF = {
    **RUN_PACKAGE_OF,
    "debootstrap": "debootstrap",
    "cc": "gcc libc6-dev",
    "tar": "tar",
}
"""The same for building the node image."""


WATCHES = Path("/proc/sys/fs/inotify/max_user_instances")

WATCHES_WANTED = 1024
"""A cluster of four nodes takes about 65 instances of inotify; Linux gives one user 128, kind's advice is this many."""


def is_private() -> bool:
    """True when a cluster here brings its own Docker; false when the machine's has the published node image.

    ``WHEELTAPPER_DOCKER=private`` or ``machine`` decides it by word.
    """
    told = os.environ.get("WHEELTAPPER_DOCKER", "")
    if told in {"private", "machine"}:
        return told == "private"
    if told:
        raise Unavailable(f"WHEELTAPPER_DOCKER is {told!r}; it may be private or machine")
    docker = Docker()
    return not (docker.answers() and docker.has(PUBLISHED_NODE_IMAGE))


def missing(needed: Mapping[str, str]) -> list[str]:
    """Debian's names of the packages that are *needed* and not here."""
    lines = [package for program, package in needed.items() if shutil.which(program, path=PATH) is None]
    return sorted({package for line in lines for package in line.split()})


def require(private: bool, command: str = "") -> None:
    """Return when a cluster can be started here; *command* is what root is told to type, this process's own by default.

    Raises:
        Unavailable: it cannot; the message says why and what to type.
    """
    _require_linux()
    if private:
        _require_packages(missing(RUN_PACKAGE_OF))
        _require_root(command)


def require_for_build(private: bool, command: str = "") -> None:
    """Return when everything that a cluster needs can be built here; installs what apt has, its output in sight.

    Raises:
        Unavailable: it cannot; the message says why and what to type.
    """
    _require_linux()
    if private:
        packages = missing(BUILD_PACKAGE_OF)
        if packages and os.geteuid() == 0 and shutil.which("apt-get"):
            _install(packages)
        _require_packages(missing(BUILD_PACKAGE_OF))
        _require_root(command)
    if not golang.is_here():
        raise Unavailable("Go is needed to build Kubernetes, in version 1.21 or newer: see https://go.dev/doc/install")


def allow_several() -> None:
    """Let root have as many watches as several clusters side by side need; it holds until the machine's next boot."""
    now = int(WATCHES.read_text())
    if now >= WATCHES_WANTED:
        return
    if os.geteuid() == 0 and os.access(WATCHES, os.W_OK):
        print(f"Raising fs.inotify.max_user_instances from {now} to {WATCHES_WANTED}, for several clusters at once.")
        WATCHES.write_text(f"{WATCHES_WANTED}\n")
    else:
        print(f"For several clusters at once: sudo sysctl fs.inotify.max_user_instances={WATCHES_WANTED}")


def _require_linux() -> None:
    if sys.platform != "linux":
        raise Unavailable("a cluster for tests needs Linux: its nodes are containers of this machine's own kernel")


def _require_packages(packages: list[str]) -> None:
    if packages:
        raise Unavailable(
            "there is no Docker with the published node image here, and none can be brought along yet; "
            f"type: sudo apt-get install --no-install-recommends {' '.join(packages)}"
        )


def _require_root(command: str) -> None:
    if os.geteuid() != 0:
        command = command or " ".join([sys.executable, *sys.orig_argv[1:]])
        raise Unavailable(f"a cluster with a Docker of its own needs root (namespaces, mounts); type: sudo {command}")


def _install(packages: list[str]) -> None:
    print(f"Installing {', '.join(packages)} …", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        ended = subprocess.run(["apt-get", *words], env=environment, check=False).returncode
        if ended:
            raise Unavailable(f"`apt-get {' '.join(words)}` failed with {ended}; its last lines say why")
