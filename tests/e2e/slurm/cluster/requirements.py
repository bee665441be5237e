"""What a private cluster needs of the machine, and how it comes there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.e2e.slurm.cluster.errors import Unavailable
from tests.e2e.slurm.cluster.release import Release

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

PACKAGE_OF = {
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "sbatch": "slurm-client",
    "munged": "munge",
    "ip": "iproute2",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
}
"""Debian's package for each program."""

ACCOUNTING_PACKAGE_OF = {
    "slurmdbd": "slurmdbd",
    "mariadbd": "mariadb-server-core",
    "my_print_defaults": "mariadb-client-core",
}
"""The same for a cluster with accounting."""

PLUGIN_PACKAGE = "slurm-wlm-basic-plugins"
PLUGIN_PLACES = (
    "/usr/lib/*/slurm-wlm",
    "/usr/lib/*/slurm",
    "/usr/lib/slurm",
    "/usr/lib64/slurm",
    "/usr/local/lib/slurm",
)


def missing(*, accounting: bool = True) -> list[str]:
    """Debian's names of the packages that are needed, for *accounting* too, and not here."""
    needed = {**PACKAGE_OF, **(ACCOUNTING_PACKAGE_OF if accounting else {})}
    packages = {package for program, package in needed.items() if shutil.which(program, path=PATH) is None}
    if not any(any(Path("/").glob(f"{place[1:]}/auth_munge.so")) for place in PLUGIN_PLACES):
        packages.add(PLUGIN_PACKAGE)
    return sorted(packages)


def require(command: str = "", *, accounting: bool = False, release: Release | None = None) -> None:
    """Return when a cluster can be made here; *command* is what root is told to type, this process's own by default.

    A cluster without *accounting* needs less of the machine, and one of another *release* brings its own Slurm.

    Raises:
        Unavailable: it cannot; the message says why and what to type.
    """
    if sys.platform != "linux":
        raise Unavailable("a private Slurm cluster needs Linux: its nodes are mount namespaces")
    if release is not None and not release.ready:
        raise Unavailable(f"Slurm {release.name} is not here; type: make test-release RELEASE={release.name}")
    packages = missing(accounting=accounting) if release is None or release.root is None else []
    if packages:
        raise Unavailable(
            f"Slurm is not installed here; type: sudo apt-get install --no-install-recommends {' '.join(packages)}"
        )
    if os.geteuid() != 0:
        command = command or " ".join([sys.executable, *sys.orig_argv[1:]])
        raise Unavailable(f"a private Slurm cluster needs root (namespaces, mounts); type: sudo {command}")
    if not Path("/dev/kmsg").exists():
        raise Unavailable("this machine shows no /dev/kmsg over which a node's own kernel log could be mounted")


def ensure_installed(command: str = "") -> None:
    """Install the missing packages with apt, its output in sight, then check as :func:`require` does for *command*.

    Raises:
        Unavailable: they are missing and cannot be installed from here, or a cluster cannot be made for another reason.
    """
    packages = missing()
    if packages and os.geteuid() == 0 and shutil.which("apt-get"):
        install(packages)
    require(command, accounting=True)


def install(packages: list[str]) -> None:
    """Install *packages* with apt, its output in sight.

    Raises:
        Unavailable: apt failed.
    """
    print(f"Installing {', '.join(packages)} …", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        ended = subprocess.run(["apt-get", *words], env=environment, check=False).returncode
        if ended:
            raise Unavailable(f"`apt-get {' '.join(words)}` failed with {ended}; its last lines say why")
