"""Root folders made of Debian packages, from the mirror that this machine's own apt uses."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.kubernetes.cluster.errors import ClusterError, Unavailable

_USELESS = ("var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale", "var/log")


def bootstrap(folder: Path, packages: Sequence[str]) -> None:
    """Make *folder* the root of a small Debian of this machine's own release, with *packages* in it.

    Raises:
        Unavailable: apt has no source for this release.
        ClusterError: a package could not be had; the message holds debootstrap's last words.
    """
    release = _release()
    made = subprocess.run(
        ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}", release, str(folder), mirror(release)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode != 0:
        raise ClusterError(f"debootstrap ended with {made.returncode}: {_last_words(made.stdout + made.stderr)}")
    for place in _USELESS:
        shutil.rmtree(folder / place, ignore_errors=True)
    # Debian's programs expect these two, empty.
    (folder / "var/lib/apt/lists").mkdir(parents=True)
    (folder / "var/log").mkdir()


def mirror(release: str) -> str:
    """The address of the archive from which apt gets *release* (``bookworm``).

    Raises:
        Unavailable: apt has no source for it.
    """
    wanted = ["--format", "$(CODENAME) $(REPO_URI)", "Created-By: Packages", "Component: main"]
    listed = subprocess.run(["apt-get", "indextargets", *wanted], capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        name, _, address = line.partition(" ")
        # Copies of an archive that holds one other thing have a code name of their own, "bookworm-security".
        if name == release:
            return address
    raise Unavailable(
        f"apt has no source for {release} here; type: sudo apt-get update, and look at /etc/apt/sources.list.d"
    )


def _release() -> str:
    for line in Path("/etc/os-release").read_text().splitlines():
        key, _, value = line.partition("=")
        if key == "VERSION_CODENAME":
            return value.strip('"')
    raise Unavailable("/etc/os-release names no VERSION_CODENAME: this is no release of Debian or Ubuntu")


def _last_words(text: str) -> str:
    return "\n".join(text.splitlines()[-15:])
