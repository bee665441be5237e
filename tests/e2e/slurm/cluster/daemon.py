"""One long-running program of a cluster."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.e2e.slurm.cluster.errors import ClusterError
from tests.e2e.slurm.cluster.namespaces import EVERYWHERE, Namespaces, Place, only_child

STOP_S = 5.0
"""Seconds that a daemon may take to end by itself: slurmctld saves its state, which takes well under one."""

_WOKEN = ("setpriv", "--pdeathsig", "CONT")
"""nsenter stops itself when its child is stopped, and then could not reap it: whoever owns the cluster may die then."""


class Daemon:
    """A program in the foreground, a child of the test.

    ``console`` takes its output; ``log`` is the file to read, another one where the program keeps its own.
    """

    def __init__(
        self,
        name: str,
        argv: tuple[str, ...],
        namespaces: Namespaces,
        log: Path,
        *,
        ready: Callable[[Daemon], bool],
        environment: dict[str, str],
        place: Place = EVERYWHERE,
        own_log: bool = False,
    ) -> None:
        self.name = name
        self.log = log
        self.console = log.with_suffix(".console") if own_log else log
        self._argv = argv
        self._namespaces = namespaces
        self._place = place
        self._ready = ready
        self._environment = environment
        self._entered: subprocess.Popen[bytes] | None = None
        self._pid = 0

    @property
    def pid(self) -> int:
        """Process id outside the namespaces; raises ClusterError when it does not run."""
        if not self.running or not self._pid:
            raise ClusterError(f"{self.name} is not running")
        return self._pid

    @property
    def running(self) -> bool:
        return self._entered is not None and self._entered.poll() is None

    @property
    def returncode(self) -> int | None:
        """How it ended, a signal as a negative number; None while it runs or before its first start."""
        return None if self._entered is None else self._entered.poll()

    def start(self, *options: str) -> None:
        """Start it, this time with more *options*, and return at once; see :meth:`ready`.

        Raises:
            ClusterError: it runs already, or ended at once.
        """
        if self.running:
            raise ClusterError(f"{self.name} is running already")
        with self.console.open("ab") as console:
            self._entered = subprocess.Popen(
                [*_WOKEN, *self._namespaces.command((*self._argv, *options), self._place)],
                stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT,
                env=self._environment, start_new_session=True,
            )  # fmt: skip
        # nsenter forks once to enter the PID namespace; all that follows replaces that child by exec.
        try:
            self._pid = only_child(self._entered)
            self._namespaces.wait_in_place(self._pid, self._place)
        except ClusterError as error:
            raise ClusterError(f"{self.name} did not start: {error}\n{self.tail()}\n{self._said()}") from error

    def ready(self) -> bool:
        """True when it does its work.

        Raises:
            ClusterError: it ended instead.
        """
        if not self.running:
            raise ClusterError(f"{self.name} ended with {self.returncode} at its start:\n{self.tail()}")
        return self._ready(self)

    def stop(self) -> None:
        """Ask it to end, wait, and insist after ``STOP_S`` seconds."""
        if self._entered is None:
            return
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)
        try:
            self._entered.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once, as a crash would, and wait until it is gone."""
        self._signal(signal.SIGKILL)
        self.reap()

    def pause(self) -> None:
        """Freeze it: it holds its sockets and answers nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a frozen daemon go on."""
        self._signal(signal.SIGCONT)

    def reap(self) -> None:
        """Wait for a daemon that was killed, here or with its namespaces."""
        if self._entered is None:
            return
        # nsenter stops itself when its child is stopped, and then would not notice that the child is gone.
        with suppress(ProcessLookupError):
            self._entered.send_signal(signal.SIGCONT)
        self._entered.wait()

    def tail(self, lines: int = 25) -> str:
        """The last *lines* of its log; of its console when it ended before it had a log. Empty before the first start."""
        file = self.log if self.log.exists() else self.console
        return "\n".join(file.read_text(errors="replace").splitlines()[-lines:]) if file.exists() else ""

    def _said(self, lines: int = 5) -> str:
        """What it told its console last, in place of a log that it never came to open."""
        return "\n".join(self.console.read_text(errors="replace").splitlines()[-lines:])

    def _signal(self, number: int) -> None:
        if not self.running:
            return
        with suppress(ProcessLookupError):
            os.kill(self._pid, number)
        if number == signal.SIGCONT and self._entered is not None:
            self._entered.send_signal(number)


def listens(daemon: Daemon, port: int) -> bool:
    """True when something in the daemon's network namespace accepts connections on TCP *port*."""
    # Column 2 is address:port in hexadecimal, column 4 the state; 0A is LISTEN (Linux, net/tcp_states.h).
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{daemon.pid}/net/{table}").read_text().splitlines()[1:]:
            columns = line.split()
            if columns[3] == "0A" and int(columns[1].rpartition(":")[2], 16) == port:
                return True
    return False
