"""Which Slurm a cluster runs: the machine's own, or that of a release folder, which is then the cluster's root.

A release folder is a small Debian with one release of Slurm in it (:mod:`tests.e2e.slurm.cluster.release_folder` makes
them). ``WHEELTAPPER_SLURM_RELEASE=24.11`` chooses one for everything that starts a cluster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[4]

CHOICE = "WHEELTAPPER_SLURM_RELEASE"
OWN = "own"

STAMP = "wheeltapper-release.json"
"""The file in a folder that says what is in it."""

PACKAGES = (
    "slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "slurmdbd", "slurm-wlm-mysql-plugin", "munge",
    "mariadb-server-core", "mariadb-client-core", "iproute2", "procps",
    "python3",  # the hooks' own, and the libraries that this machine's Python needs
)  # fmt: skip
"""What is installed in a folder, by Debian's names."""


@dataclass(frozen=True, slots=True)
class Release:
    """One release of Slurm. ``root`` is its folder, None for the machine's own Slurm."""

    name: str
    root: Path | None = None

    @property
    def ready(self) -> bool:
        """False when its folder is not there, or was made before all of ``PACKAGES`` belonged into it."""
        return self.root is None or set(PACKAGES) <= self._stamp.get("packages", {}).keys()

    @property
    def full_version(self) -> str:
        """Such as ``24.11.5``; the machine's own Slurm is asked, a folder's stamp is read."""
        return own_version() if self.root is None else str(self._stamp["slurm"])

    @property
    def version(self) -> tuple[int, ...]:
        """Year and month, as in ``(24, 11)``."""
        return tuple(int(part) for part in self.full_version.split(".")[:2])

    @property
    def _stamp(self) -> dict[str, Any]:
        assert self.root is not None
        try:
            return dict(json.loads((self.root / STAMP).read_text()))
        except FileNotFoundError:
            return {}


def chosen() -> Release:
    """The release that the environment names, the machine's own when it names none."""
    return named(os.environ.get(CHOICE) or OWN)


def named(name: str) -> Release:
    """Release *name*, whose folder lies outside of the checkout, so that all checkouts share it."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Release(name, None if name == OWN else Path(cache) / "wheeltapper" / f"slurm-{name}")


@cache
def own_version() -> str:
    """The version of this machine's own Slurm, such as ``24.11.5``."""
    return version_said("slurmctld", "-V")


def version_said(*words: str) -> str:
    """The version in what a command of Slurm prints of itself (``slurm-wlm 24.11.5``)."""
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()[1]


def lent(cluster: Path) -> tuple[tuple[Path, Path], ...]:
    """What a release folder is lent of this machine, each with its place there: the folder of the *cluster*, the one for
    temporary files, the checkout, and the Python that runs this.

    The hooks do without the last: they run on the folder's own Python, as on a node.
    """
    same = [Path(tempfile.gettempdir()), cluster, CHECKOUT]
    if Path(sys.base_prefix) != Path("/usr"):
        return tuple((path, path) for path in (*same, Path(sys.base_prefix), Path(sys.prefix)))
    # A distribution's own Python shares /usr with all else, so only its parts are lent. The folder may have another one
    # by that name, so the interpreter is laid over every name by which the virtual environment reaches it.
    library = Path(sysconfig.get_path("stdlib"))
    names = [name for name in _names(Path(sys.executable)) if not name.is_relative_to(sys.prefix)]
    interpreter = Path(sys.executable).resolve()
    return (*((path, path) for path in (*same, Path(sys.prefix), library)), *((interpreter, name) for name in names))


def _names(path: Path) -> list[Path]:
    """*path*, and every name that it leads through as a link."""
    found = [path]
    while path.is_symlink():
        path = path.parent / path.readlink()
        found.append(path)
    return found
