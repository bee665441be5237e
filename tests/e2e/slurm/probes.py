"""Small hooks of the tests' own: what a fact about Slurm is read from."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.slurm.cluster import Hooks

NAMES = ("prolog", "epilog", "epilogslurmctld")

# The scripts get no PATH from Slurm; $SEEN is where they leave what they saw. `until_there FILE SECONDS` is how one
# script waits for another: it fails when the file does not come.
_HEAD = """#!/bin/sh
environment=/proc/$$/environ
PATH=/usr/sbin:/usr/bin:/sbin:/bin
SEEN={seen}
until_there() {{
    tenths=$(($2 * 10))
    while [ ! -e "$1" ]; do
        [ "$tenths" -gt 0 ] || return 1
        tenths=$((tenths - 1))
        sleep 0.1
    done
}}
"""


class Probes:
    """Three scripts that slurm.conf names and a test replaces while the cluster runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.seen = folder / "seen"
        self.seen.mkdir(parents=True, exist_ok=True)
        self.seen.chmod(0o1777)
        self.reset()

    @property
    def hooks(self) -> Hooks:
        return Hooks(self.folder / "prolog", self.folder / "epilog", None, self.folder / "epilogslurmctld")

    def set(self, name: str, body: str) -> None:
        """Let the hook *name* (``prolog``, ``epilog``, ``epilogslurmctld``) run *body* from now on."""
        new = self.folder / f"{name}.new"
        new.write_text(_HEAD.format(seen=self.seen) + body + "\n")
        new.chmod(0o755)
        new.replace(self.folder / name)

    def reset(self) -> None:
        """Let all hooks do nothing, and forget what they saw."""
        for name in NAMES:
            self.set(name, "exit 0")
        for file in self.seen.iterdir():
            file.unlink()

    def record_environment(self, name: str) -> None:
        """Let the hook *name* leave its environment, as Slurm gave it, in ``NAME.env``."""
        self.set(
            name, f'tr "\\0" "\\n" <"$environment" >"$SEEN/{name}.new" && mv "$SEEN/{name}.new" "$SEEN/{name}.env"'
        )

    def environment(self, name: str) -> dict[str, str] | None:
        """What :meth:`record_environment` left; None before the hook ran."""
        file = self.seen / f"{name}.env"
        if not file.exists():
            return None
        return dict(line.split("=", 1) for line in file.read_text().splitlines() if "=" in line)

    def saw(self, name: str) -> bool:
        return (self.seen / name).exists()

    def allow(self, name: str) -> None:
        """Make the file that a script waits for."""
        (self.seen / name).touch()
