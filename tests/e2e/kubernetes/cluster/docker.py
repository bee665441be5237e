"""Docker: the machine's own, or a private daemon inside walls of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tests.e2e.kubernetes.cluster.cache import FILES
from tests.e2e.kubernetes.cluster.errors import ClusterError, CommandFailed
from tests.e2e.kubernetes.cluster.walls import ENVIRONMENT, Walls, entering

START_S = 120.0
"""Seconds until a daemon must answer; it takes one or two on a machine that is not overloaded."""


@dataclass(frozen=True, slots=True)
class Docker:
    """A Docker that can be asked. ``socket`` is a private daemon's, None is whatever the machine's own settings say."""

    socket: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What the docker command starts with, and kind, which calls it."""
        if self.socket is None:
            return dict(os.environ)
        return {**ENVIRONMENT, "DOCKER_HOST": f"unix://{self.socket}", "DOCKER_CONFIG": f"{self.socket}.config"}

    def call(self, *words: str, stdin: IO[bytes] | None = None, check: bool = True) -> str:
        """Run ``docker WORDS…`` and return what it printed.

        Raises:
            CommandFailed: it returned non-zero and *check* is set.
        """
        ended = subprocess.run(
            ["docker", *words],
            stdin=stdin or subprocess.DEVNULL, capture_output=True, text=True, check=False, env=self.environment,
        )  # fmt: skip
        if check and ended.returncode != 0:
            raise CommandFailed(("docker", *words), ended)
        return ended.stdout

    def answers(self) -> bool:
        """True when there is a docker command, and a daemon behind it."""
        if shutil.which("docker", path=self.environment.get("PATH")) is None:
            return False
        return bool(self.call("version", "--format", "{{.Server.Version}}", check=False).strip())

    def has(self, image: str) -> bool:
        """True when *image* is here already."""
        return bool(self.call("image", "inspect", "--format", "{{.Id}}", image, check=False).strip())


class PrivateDocker:
    """A dockerd in walls of its own, which keeps its data in *data* and everything that goes with it in *scratch*."""

    def __init__(self, data: Path, scratch: Path, log: Path) -> None:
        self.docker = Docker(scratch / "docker.sock")
        self.walls = Walls(scratch, log.with_suffix(".walls.log"))
        self._data = data
        self._log = log
        self._daemon: subprocess.Popen[bytes] | None = None
        self._companions: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start it and wait until it answers.

        Raises:
            ClusterError: it did not; the message holds the end of its log.
        """
        self.walls.start()
        runtime = FILES / "runc"
        options = (
            f"--data-root={self._data}", f"--host=unix://{self.docker.socket}", "--pidfile=/run/docker.pid",
            f"--cgroup-parent=/{self.walls.cgroup}", "--exec-opt=native.cgroupdriver=cgroupfs",
            f"--add-runtime=ours={runtime}", "--default-runtime=ours",
        )  # fmt: skip
        with self._log.open("ab") as log:
            self._daemon = subprocess.Popen(
                entering(self.walls.pid, ("dockerd", *options)),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=ENVIRONMENT, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + START_S
        while not self.docker.answers():
            if self._daemon.poll() is not None or time.monotonic() > deadline:
                self.stop()
                last = "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])
                raise ClusterError(f"the private Docker did not start; the end of {self._log}:\n{last}")
            time.sleep(0.05)

    def run_beside(self, argv: Sequence[str], log: Path, descriptor: int) -> None:
        """Start a program inside the walls that ends with them; it inherits *descriptor*."""
        with log.open("wb") as out:
            self._companions.append(
                subprocess.Popen(
                    entering(self.walls.pid, argv),
                    stdin=subprocess.DEVNULL, stdout=out, stderr=out, pass_fds=(descriptor,), start_new_session=True,
                )
            )  # fmt: skip

    def finish(self, seconds: float = 30.0) -> None:
        """Let the daemon write down what it knows, then stop; what it keeps in *data* can be used again."""
        assert self._daemon is not None
        # The nsenter that we see waits for the daemon inside, which is the one to be asked.
        inside = subprocess.run(
            entering(self.walls.pid, ("cat", "/run/docker.pid")),
            capture_output=True, text=True, check=True, env=ENVIRONMENT,
        )  # fmt: skip
        subprocess.run(
            entering(self.walls.pid, ("kill", f"-{signal.SIGTERM:d}", inside.stdout.strip())),
            check=True,
            env=ENVIRONMENT,
        )
        with suppress(subprocess.TimeoutExpired):
            self._daemon.wait(seconds)
        self.stop()

    def stop(self) -> None:
        """End the daemon and all its containers at once."""
        # What nsenter started is not killed by way of nsenter: an orphan that nobody reaps would keep process 1 waiting.
        self.walls.stop()
        for process in (*self._companions, *([self._daemon] if self._daemon else [])):
            process.wait()
        self._companions.clear()
        self._daemon = None


def copy_docker(seed: Path, target: Path) -> None:
    """Make *target* a data folder of Docker's like *seed*, in which no daemon runs, without copying its images.

    A layer of an image is only ever read, so a link to it will do. All else is small, and the daemon's own.
    """

    def of_layers(folder: str, names: list[str]) -> set[str]:
        # The other one is a device that the daemon makes for itself.
        return {"diff" if Path(folder).parent == seed / "overlay2" else "backingFsBlockDev"} & set(names)

    shutil.copytree(seed, target, symlinks=True, ignore=of_layers)
    for layer in (seed / "overlay2").glob("*/diff"):
        (target / "overlay2" / layer.parent.name / "diff").symlink_to(layer)


def copy_containerd(seed: Path, target: Path) -> None:
    """Make *target* a data folder of containerd's like *seed*, in which no daemon runs, without copying its images.

    Unpacked layers are only ever read, so links to their files will do; the databases are each daemon's own.
    """
    subprocess.run(["cp", "--archive", "--link", seed, target], check=True)
    for database in target.glob("*/*.db"):
        database.unlink()
        shutil.copy(seed / database.relative_to(target), database)
