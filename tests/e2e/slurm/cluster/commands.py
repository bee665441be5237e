"""What a cluster is asked: Slurm's commands, run inside it, and waiting for what they show."""

from __future__ import annotations

import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from tests.e2e.slurm.cluster import records
from tests.e2e.slurm.cluster.errors import CommandFailed, NotInTime
from tests.e2e.slurm.cluster.namespaces import EVERYWHERE, Place

T = TypeVar("T")

POLL_S = 0.05

WHEELTAPPER = (sys.executable, "-m", "wheeltapper.cli.main")

_TIMEOUT_CODES = frozenset({124, 137})
"""How timeout(1) ends when the command had to be ended, by SIGTERM or by SIGKILL."""


class Commands(ABC):
    """The commands of a cluster. ``work`` is the folder they run in, where jobs write too."""

    work: Path

    @abstractmethod
    def enter(self, argv: tuple[str, ...], place: Place, user: str | None) -> list[str]:
        """The command line that runs *argv* inside the cluster."""

    @property
    @abstractmethod
    def environment(self) -> dict[str, str]:
        """What commands start with."""

    @property
    @abstractmethod
    def controller_place(self) -> Place:
        """Where the controller's own files lie at their real paths."""

    @abstractmethod
    def logs(self) -> str:
        """The last lines of every daemon's log."""

    @abstractmethod
    def tails(self) -> str:
        """The same, with the state of jobs and nodes where slurmctld answers."""

    def run(
        self,
        *argv: str,
        user: str | None = None,
        check: bool = True,
        timeout: float = 30.0,
        stdin: str = "",
        place: Place = EVERYWHERE,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside the cluster as *user* (root when None), for at most *timeout* seconds.

        Raises:
            CommandFailed: it returned non-zero and *check* is set.
            NotInTime: it had to be ended.
        """
        # `timeout` ends the command itself; ending nsenter from here would leave the command running inside.
        limited = ("timeout", "--kill-after=1", f"{timeout:g}", "env", f"--chdir={self.work}", *argv)
        result = subprocess.run(
            self.enter(limited, place, user),
            input=stdin, capture_output=True, text=True, check=False, env=self.environment,
        )  # fmt: skip
        if result.returncode in _TIMEOUT_CODES:
            raise NotInTime(f"`{' '.join(argv)}` did not end within {timeout:g} s.\n\n{self.logs()}")
        if check and result.returncode != 0:
            raise CommandFailed(argv, result)
        return result

    def scontrol(self, *args: str) -> str:
        return self.run("scontrol", *args).stdout

    def squeue(self, *args: str) -> str:
        return self.run("squeue", *args).stdout

    def sinfo(self, *args: str) -> str:
        return self.run("sinfo", *args).stdout

    def wheeltapper(self, *args: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Run Wheeltapper's own command on the controller; its exit code is the caller's to judge."""
        return self.run(*WHEELTAPPER, *args, check=False, timeout=timeout, place=self.controller_place)

    def sbatch(self, script: str, *options: str, user: str | None = None) -> str:
        """Submit *script* (the ``#!`` line may be left out) and return the job's id.

        The job runs in ``layout.work`` and writes ``slurm-ID.out`` there, unless *options* say otherwise.
        """
        if not script.startswith("#!"):
            script = f"#!/bin/sh\n{script}\n"
        return self.run("sbatch", "--parsable", *options, user=user, stdin=script).stdout.strip().partition(";")[0]

    def output(self, job: str) -> str:
        """What the job has written so far, in its default place; empty before it has written."""
        file = self.work / f"slurm-{job}.out"
        return file.read_text() if file.exists() else ""

    @property
    def jobs(self) -> list[dict[str, str]]:
        """All jobs that slurmctld still knows, as ``scontrol show job`` tells them."""
        return records.jobs(self.scontrol("show", "job"))

    def job(self, job: str) -> dict[str, str]:
        """One job (``12``, ``12_3``) as ``scontrol show job`` tells it; raises CommandFailed for one it does not know."""
        return records.jobs(self.scontrol("show", "job", job))[0]

    def admin_comment(self, job: str) -> str:
        """The job's AdminComment; of a finished job slurmdbd's, where there is one, as slurmctld's can no longer change."""
        now = self.job(job)
        if now["JobState"] not in {"PENDING", "RUNNING", "COMPLETING"}:
            books = self.run("sacct", "-X", "-n", "-P", f"--jobs={job}", "--format=AdminComment", check=False)
            if books.returncode == 0 and books.stdout.strip():
                return books.stdout.strip()
        return now.get("AdminComment", "")

    def node_state(self, name: str) -> tuple[frozenset[str], str]:
        """The node's states (``IDLE``, ``DRAIN`` …) and its reason, empty when it has none."""
        return records.node_state(self.scontrol("show", "node", name))

    def wait_job(self, job: str, state: str, timeout: float = 20.0) -> dict[str, str]:
        """Wait until *job* is in *state* and return it."""

        def there() -> dict[str, str] | None:
            now = self.job(job)
            return now if now["JobState"] == state else None

        return self.wait(there, timeout, f"job {job} to be {state}")

    def wait(self, condition: Callable[[], T | None], timeout: float, why: str) -> T:
        """Call *condition* until it returns something true, and return that.

        Raises:
            NotInTime: it did not within *timeout* seconds; the message says *why* and ends with all logs.
        """
        deadline = time.monotonic() + timeout
        while True:
            result = condition()
            if result:
                return result
            if time.monotonic() > deadline:
                raise NotInTime(f"Waited {timeout:g} s for {why}, in vain.\n\n{self.tails()}")
            time.sleep(POLL_S)
