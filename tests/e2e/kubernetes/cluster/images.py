"""The images that a cluster runs, built by Docker without a registry: a base with Python, and one for each program."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.e2e.kubernetes.cluster import debian
from tests.e2e.kubernetes.cluster.cache import FILES, version
from tests.e2e.kubernetes.cluster.docker import Docker
from tests.e2e.kubernetes.cluster.errors import ClusterError
from tests.e2e.kubernetes.cluster.golang import KUBERNETES

REPOSITORY = "localhost"
"""No registry: what is not on a node already can't be pulled there."""

BASE_IMAGE = f"{REPOSITORY}/python:base"
"""Python with venv and pip: for pods of the tests, and the base of the project's own image."""

TRAINING_OPERATOR_IMAGE = (
    f"{REPOSITORY}/training-operator:{version('training-operator', 'github.com/kubeflow/training-operator')}"
)
KUEUE_IMAGE = f"{REPOSITORY}/kueue:{version('kubernetes', 'sigs.k8s.io/kueue')}"
DEVICE_PLUGIN_IMAGE = f"{REPOSITORY}/device-plugin:1"
PAUSE_IMAGE = f"{REPOSITORY}/pause:1"
ETCD_TAG = version("kubernetes", "go.etcd.io/etcd/server/v3")
COREDNS_TAG = version("kubernetes", "github.com/coredns/coredns")

EVERYWHERE = {
    "python": BASE_IMAGE,
    "training-operator": TRAINING_OPERATOR_IMAGE,
    "kueue": KUEUE_IMAGE,
    "device-plugin": DEVICE_PLUGIN_IMAGE,
}
"""The images that every cluster has, by the program in each."""

OF_OUR_NODE_IMAGE = {
    **{
        name: f"{REPOSITORY}/{name}:{KUBERNETES}"
        for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
    },
    "etcd": f"{REPOSITORY}/etcd:{ETCD_TAG}",
    "coredns": f"{REPOSITORY}/coredns:{COREDNS_TAG}",
    "pause": PAUSE_IMAGE,
}
"""The images that kubeadm asks for, which the published node image would bring along."""

_BASE_PACKAGES = (
    "ca-certificates",
    "nftables",  # kube-proxy's image is made on this one
    "python3",
    "python3-venv",
)

_PUBLISHED_BASE = "python:3.11-slim"
"""What stands for the base image where Docker has a registry to pull from."""

_SET_UP = {
    "coredns": 'ENTRYPOINT ["/coredns"]\n',
    "kueue": 'USER 65532\nENTRYPOINT ["/manager"]\n',  # its Deployment starts /manager, and allows no root
    "pause": 'ENTRYPOINT ["/pause"]\n',
    "training-operator": 'ENTRYPOINT ["/manager"]\n',
}
_PLACES = {"coredns": "/coredns", "kueue": "/manager", "pause": "/pause", "training-operator": "/manager"}


def make_root(tar: Path) -> None:
    """Make the root of the base image from Debian packages, as a tar file."""
    with tempfile.TemporaryDirectory(dir=tar.parent) as scratch:
        root = Path(scratch, "root")
        debian.bootstrap(root, _BASE_PACKAGES)
        shutil.copy(FILES / "nslookup", root / "usr/bin/nslookup")
        subprocess.run(["tar", "--create", "--file", tar, "--directory", root, "--exclude=./dev/*", "."], check=True)


def make_base(docker: Docker, root: Path | None) -> None:
    """Make the base image from the tar file *root*, or from a published image where that is None."""
    if root is not None:
        docker.call("import", str(root), BASE_IMAGE)
        return
    with tempfile.TemporaryDirectory() as scratch:
        shutil.copy(FILES / "nslookup", scratch)
        _build(docker, Path(scratch), BASE_IMAGE, f"FROM {_PUBLISHED_BASE}\nCOPY nslookup /usr/bin/nslookup\n")


def make_program(docker: Docker, name: str, image: str, program: Path) -> None:
    """Make the *image* of one *program*; kube-proxy's stands on the base image, since it calls nft."""
    base = BASE_IMAGE if name == "kube-proxy" else "scratch"
    place = _PLACES.get(name, f"/usr/local/bin/{name}")
    text = f"FROM {base}\nENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nCOPY {program.name} {place}\n"
    with tempfile.TemporaryDirectory(dir=program.parent) as scratch:
        Path(scratch, program.name).hardlink_to(program)
        _build(docker, Path(scratch), image, text + _SET_UP.get(name, ""))


def make_device_plugin(docker: Docker) -> None:
    """Make the image of the fake device plugin: its file, and gRPC for the base image's Python."""
    said = docker.call("run", "--rm", "--network=none", BASE_IMAGE, "python3", "--version")
    found = re.search(r"(\d+\.\d+)", said)
    if found is None:
        raise ClusterError(f"{BASE_IMAGE} has no Python: `python3 --version` said {said!r}")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "app")
        _install(FILES / "device-plugin/requirements.txt", found[1], folder)
        shutil.copy(FILES / "device-plugin/device_plugin.py", folder)
        text = f'FROM {BASE_IMAGE}\nCOPY app /app\nENTRYPOINT ["python3", "/app/device_plugin.py"]\n'
        _build(docker, Path(scratch), DEVICE_PLUGIN_IMAGE, text)


def make_pause(program: Path) -> None:
    """Compile the program that holds a pod's namespaces."""
    subprocess.run(["cc", "-static", "-Os", "-s", "-o", program, FILES / "pause.c"], check=True)


def build(docker: Docker, folder: Path, image: str, arguments: Mapping[str, str]) -> None:
    """Build *image* from the Dockerfile in *folder*, with build *arguments*, and without a network."""
    words = [word for key, value in arguments.items() for word in ("--build-arg", f"{key}={value}")]
    docker.call("build", "--quiet", "--network=none", "--tag", image, *words, str(folder))


def _build(docker: Docker, folder: Path, image: str, dockerfile: str) -> None:
    (folder / "Dockerfile").write_text(dockerfile)
    build(docker, folder, image, {})


def _install(requirements: Path, python: str, folder: Path) -> None:
    """Install *requirements* for another Python of this machine's kind into *folder*, with pip."""
    machine = platform.machine()
    ended = subprocess.run(
        [
            sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", folder,
            "--python-version", python, "--only-binary=:all:", "--requirement", requirements,
            f"--platform=manylinux2014_{machine}", f"--platform=manylinux_2_28_{machine}",
        ],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ended.returncode != 0:
        raise ClusterError(f"pip could not install {requirements.name} for Python {python}: {ended.stderr.strip()}")
