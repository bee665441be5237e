"""Makes the folders that hold other releases of Slurm, from the Debian mirror that this machine uses."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.e2e.slurm.cluster.errors import Unavailable
from tests.e2e.slurm.cluster.release import PACKAGES, STAMP, Release, version_said
from tests.e2e.slurm.cluster.requirements import install

SUITES = {"22.05": ("bookworm",), "24.11": ("trixie",), "26.05": ("forky", "sid")}
"""Debian's suites that have, or had, each release, the likeliest first. A suite that is not yet stable moves on."""

MIRROR = "WHEELTAPPER_DEBIAN_MIRROR"

_TOOLS = {"mmdebstrap": "mmdebstrap", "/usr/share/keyrings/debian-archive-keyring.gpg": "debian-archive-keyring"}

_LEFT_OUT = ("doc", "man", "locale", "info")


def make(release: Release) -> None:
    """Make the folder of *release*, the tools' own progress in sight. It appears whole or not at all.

    Raises:
        Unavailable: it cannot be made here; the message says why and what to do.
    """
    assert release.root is not None
    if release.name not in SUITES:
        raise Unavailable(f"Debian has no Slurm {release.name}; it has {', '.join(SUITES)}")
    _need_tools()
    mirror = _mirror()
    release.root.parent.mkdir(parents=True, exist_ok=True)
    with _alone(release.root):
        if release.ready:  # another process made it meanwhile
            return
        held = []
        new = release.root.with_name(f"{release.root.name}.new")
        for suite in SUITES[release.name]:
            _bootstrap(suite, new, mirror)
            version = version_said("chroot", str(new), "slurmctld", "-V")
            if version.startswith(f"{release.name}."):
                _stamp(new, suite, version)
                _replace(release.root, new)
                return
            held.append(f"{suite} has {version}")
        shutil.rmtree(new)
        raise Unavailable(f"Debian no longer has Slurm {release.name}: {', '.join(held)}")


def _need_tools() -> None:
    if os.geteuid() != 0:
        raise Unavailable("a folder with another release of Slurm can only be made by root")
    missing = [package for tool, package in _TOOLS.items() if not (shutil.which(tool) or Path(tool).exists())]
    if missing and not shutil.which("apt-get"):
        raise Unavailable(f"these are needed to make a folder with another Slurm: {', '.join(missing)}")
    if missing:
        install(missing)


def _mirror() -> str:
    """The Debian mirror that the environment names, or else apt's sources."""
    if os.environ.get(MIRROR):
        return os.environ[MIRROR]
    asked = ["apt-get", "indextargets", "--format", "$(LABEL) $(SITE)", "Created-By: Packages"]
    apt = shutil.which("apt-get")
    said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout if apt else ""
    sites = [site for label, _, site in (line.partition(" ") for line in said.splitlines()) if label == "Debian"]
    if not sites:
        raise Unavailable(f"apt knows no Debian mirror on this machine: run `apt-get update`, or set {MIRROR} to one")
    return sites[0]


@contextmanager
def _alone(root: Path) -> Iterator[None]:
    """Wait until no other process makes the same folder."""
    with root.with_name(f"{root.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _bootstrap(suite: str, folder: Path, mirror: str) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # what was left of a try that was interrupted
    left_out = [f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in _LEFT_OUT]
    words = [
        "mmdebstrap", "--mode=root", "--variant=minbase", f"--include={','.join(PACKAGES)}", *left_out,
        # A mirror may be a copy of some earlier day.
        '--aptopt=Acquire::Check-Valid-Until "false"', suite, str(folder), mirror,
    ]  # fmt: skip
    ended = subprocess.run(words, check=False).returncode
    if ended:
        raise Unavailable(f"mmdebstrap failed with {ended} for Debian {suite}; its last lines say why")


def _stamp(folder: Path, suite: str, version: str) -> None:
    listed = subprocess.run(["chroot", str(folder), "dpkg-query", "--show"], capture_output=True, text=True, check=True)
    packages = dict(line.split("\t") for line in listed.stdout.splitlines())
    packages = {name.partition(":")[0]: found for name, found in packages.items()}
    made = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    (folder / STAMP).write_text(
        json.dumps({"slurm": version, "suite": suite, "made": made, "packages": packages}, indent=1) + "\n"
    )


def _replace(old: Path, new: Path) -> None:
    if old.exists():
        aside = old.with_name(f"{old.name}.old")
        old.rename(aside)
        shutil.rmtree(aside)
    new.rename(old)
