"""Programs built from the Go modules that ``tools/`` pins."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.kubernetes.cluster.cache import TOOLS, version
from tests.e2e.kubernetes.cluster.errors import ClusterError

SEARCHED = f"{os.environ.get('PATH', os.defpath)}:/usr/local/go/bin"
"""Where Go is looked for: sudo forgets the place that Go's own instructions put it in."""

KUBERNETES = version("kubernetes", "k8s.io/kubernetes")


@dataclass(frozen=True, slots=True)
class Program:
    """A program of the Go package ``package``, as ``tools/<tool>`` pins or has it; ``stamps`` are Go variables set at the build."""

    name: str
    tool: str
    package: str
    stamps: tuple[str, ...] = ()


def _kubernetes(name: str) -> Program:
    major, minor, _ = KUBERNETES.lstrip("v").split(".", 2)
    place = "k8s.io/component-base/version"
    stamps = (f"{place}.gitVersion={KUBERNETES}", f"{place}.gitMajor={major}", f"{place}.gitMinor={minor}")
    return Program(name, "kubernetes", f"k8s.io/kubernetes/cmd/{name}", stamps)


_HELM_STAMPS = (f"helm.sh/helm/v3/internal/version.version={version('kubernetes', 'helm.sh/helm/v3')}",)

EVERYWHERE = (
    _kubernetes("kubectl"),
    Program("kind", "kubernetes", "sigs.k8s.io/kind"),
    Program("helm", "kubernetes", "helm.sh/helm/v3/cmd/helm", _HELM_STAMPS),
    Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    Program(
        "training-operator",
        "training-operator",
        "github.com/kubeflow/training-operator/cmd/training-operator.v1",
    ),
    Program("kueue", "kubernetes", "sigs.k8s.io/kueue/cmd/kueue"),
)
"""What every cluster needs or may be given, the longest builds last."""

OF_OUR_NODE_IMAGE = (
    Program("coredns", "kubernetes", "./coredns"),
    Program("etcd", "kubernetes", "go.etcd.io/etcd/server/v3"),
    Program("crictl", "kubernetes", "sigs.k8s.io/cri-tools/cmd/crictl"),
    *map(
        _kubernetes,
        ("kubeadm", "kube-proxy", "kubelet", "kube-scheduler", "kube-apiserver", "kube-controller-manager"),
    ),
)
"""What the published node image would bring along."""


def build(program: Program, target: Path) -> None:
    """Build *program* into *target*, without cgo, so that it runs in any image.

    Raises:
        ClusterError: it could not be built; the message holds Go's last words.
    """
    flags = " ".join(["-s", "-w", *(f"-X {stamp}" for stamp in program.stamps)])
    _go(program.tool, ["build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", str(target), program.package])


def copy_from_module(tool: str, module: str, folder: str, target: Path) -> None:
    """Copy *folder* of the Go module *module* to *target*; what Go keeps of a module is read-only, the copy is not."""
    _go(tool, ["mod", "download", module])
    root = _go(tool, ["list", "-m", "-f", "{{.Dir}}", module]).strip()
    shutil.copytree(Path(root, folder), target, copy_function=shutil.copyfile)
    for place in [target, *target.rglob("*")]:
        place.chmod(0o755 if place.is_dir() else 0o644)


def is_here() -> bool:
    """True when there is a Go."""
    return shutil.which("go", path=SEARCHED) is not None


def _go(tool: str, words: Sequence[str]) -> str:
    # Nothing of a person's own GOFLAGS; the toolchain that a go.mod asks for, Go fetches by itself.
    environment = {**os.environ, "PATH": SEARCHED, "GOFLAGS": "", "CGO_ENABLED": "0", "GOWORK": "off"}
    ended = subprocess.run(
        ["go", *words], cwd=TOOLS / tool, env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode != 0:
        said = "\n".join((ended.stdout + ended.stderr).splitlines()[-20:])
        raise ClusterError(f"`go {' '.join(words)}` in tools/{tool} ended with {ended.returncode}:\n{said}")
    return ended.stdout
