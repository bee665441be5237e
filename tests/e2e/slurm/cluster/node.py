"""One node: a slurmd, an agent, and a kernel log, a sysfs and folders of its own at the real paths."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from tests.e2e.slurm.cluster.daemon import Daemon
from tests.e2e.slurm.cluster.files import PCI_ADDRESSES, NodeFiles
from tests.e2e.slurm.cluster.namespaces import sharing

XID_TEXTS = {
    48: "An uncorrectable double bit error (DBE) has been detected on GPU in the framebuffer at physical address 0x0.",
    79: "GPU has fallen off the bus.",
}
"""The driver's words for the codes that tests use most."""

Waiter = Callable[[Callable[[], bool], float, str], bool]
"""Waits for a condition for so many seconds, and names what was waited for when it does not come."""


class Runner(Protocol):
    """Runs a command somewhere in the cluster and returns how it ended."""

    def __call__(
        self, *argv: str, user: str | None = None, check: bool = True, timeout: float = 30.0
    ) -> subprocess.CompletedProcess[str]: ...


VERDICT_S = 30.0
"""Within it a verdict follows what a check can see: the slowest of those that the tests play with looks every 10 s."""


class Node:
    """One node of a running cluster."""

    def __init__(
        self, name: str, files: NodeFiles, slurmd: Daemon, agent: Daemon, *, run: Runner, wait: Waiter
    ) -> None:
        self.name = name
        self.files = files
        self.slurmd = slurmd
        self.agent = agent
        self.run = run
        self._wait = wait
        self._sequence = 0

    @property
    def run_dir(self) -> Path:
        """The node's /run/wheeltapper, as seen from outside."""
        return self.files.run

    @property
    def verdict(self) -> Path:
        """The file that holds the node's verdict."""
        return self.files.run / "verdict"

    def kmsg(self, text: str, *, facility: int = 0, level: int = 3) -> int:
        """Append one record to the node's kernel log and return its sequence number.

        Facility 0 is the kernel, 1 a user's program; level 3 is an error (Linux, Documentation/ABI/testing/dev-kmsg).
        """
        sequence = self._sequence
        self._sequence += 1
        microseconds = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        with self.files.kmsg.open("a") as log:
            log.write(f"{facility * 8 + level},{sequence},{microseconds},-;{text}\n")
        return sequence

    def wait_verdict(self, state: str) -> None:
        """Wait until the node's verdict is *state* (``ok``, ``warn``, ``fail``, ``unknown``)."""
        self._wait(
            lambda: self.verdict.read_text().startswith(f"{state} "),
            VERDICT_S,
            f"the verdict of {self.name} to be {state}",
        )

    def xid(self, code: int, pci: str = PCI_ADDRESSES[0], text: str | None = None) -> int:
        """Let the NVIDIA driver report Xid *code* for the GPU at *pci*, in the driver's own form."""
        words = XID_TEXTS.get(code, "an error of this kind was seen.") if text is None else text
        return self.kmsg(f"NVRM: Xid (PCI:{pci}): {code}, pid='<unknown>', name=<unknown>, {words}")

    def lose_gpu(self, pci: str = PCI_ADDRESSES[0]) -> None:
        """Take a GPU off the PCI bus."""
        for file in self.files.gpu(pci).iterdir():
            file.unlink()
        self.files.gpu(pci).rmdir()

    def crash(self) -> None:
        """Lose power: slurmd, agent and everything that runs on the node end at once, and nobody is told."""
        daemons = [daemon for daemon in (self.slurmd, self.agent) if daemon.running]
        for pid in {pid for daemon in daemons for pid in sharing(daemon.pid, "mnt")}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for daemon in daemons:
            daemon.reap()

    def reboot(self, *, on_slurms_behalf: bool = False) -> None:
        """Crash and boot again: a new boot id, an empty kernel log and an empty /run; what ran is started again.

        slurmctld learns of a reboot from the machine's uptime, which stays that of the machine below. Where it waits for
        one, slurmd is told to say so (slurmd(8), ``-b``).
        """
        again = [daemon for daemon in (self.slurmd, self.agent) if daemon.running]
        self.crash()
        shutil.rmtree(self.files.run)
        self.files.run.mkdir()
        self.files.kmsg.write_text("")
        self.files.boot_id.write_text(f"{uuid.uuid4()}\n")
        self._sequence = 0
        for daemon in again:
            daemon.start(*(["-b"] if on_slurms_behalf and daemon is self.slurmd else []))
        for daemon in again:
            self._wait(daemon.ready, 15.0, f"{daemon.name} to start after the reboot of {self.name}")
