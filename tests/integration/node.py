"""A node in a folder: real stubs, real client and real agent, with a fake scontrol and a kernel log of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wheeltapper.checks import registry

CHECKOUT = Path(__file__).resolve().parents[2]
HOOKS = CHECKOUT / "hooks"

PATIENCE_S = 30.0

OTHER_CHECKS = sorted(registry.shipped().keys() - {"gpu_count"})
"""Off unless a test says otherwise: what the machine under the tests is like is not the tests' business."""

LOST = "NVRM: Xid (PCI:{gpu}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."

# It remembers the node's state and reason, notes each call, and can be made to hang or fail.
SCONTROL = """#!/bin/sh
here={here}
echo "$*" >>"$here/calls"
[ ! -e "$here/hang" ] || exec sleep 60
[ ! -e "$here/fail" ] || exit 1
read -r state <"$here/state"
read -r reason <"$here/reason"
case $1 in
  show) echo "NodeName=$3 Arch=x86_64 State=$state CPUs=2 ${{reason:+Reason=$reason [root@2026-11-29T12:00:00]}}" ;;
  update)
    for pair; do
      case $pair in
        State=*) echo "IDLE+${{pair#State=}}" >"$here/state" ;;
        Reason=*) echo "${{pair#Reason=}}" >"$here/reason" ;;
      esac
    done
    ;;
esac
"""


def until(true: Callable[[], Any], what: str) -> None:
    """Wait until *true* is, or fail and say *what* did not come."""
    ends = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < ends, f"{what} did not come within {PATIENCE_S:g} s"
        time.sleep(0.005)  # one step of the wait for a condition with a deadline


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def uptime() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])


@dataclass
class Slurm:
    """The node as the fake scontrol knows it."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir()
        (self.folder / "scontrol").write_text(SCONTROL.format(here=self.folder))
        (self.folder / "scontrol").chmod(0o755)
        self.set("IDLE")

    def set(self, state: str, reason: str = "") -> None:
        (self.folder / "state").write_text(f"{state}\n")
        (self.folder / "reason").write_text(f"{reason}\n")

    @property
    def state(self) -> str:
        return (self.folder / "state").read_text().strip()

    @property
    def reason(self) -> str:
        return (self.folder / "reason").read_text().strip()

    @property
    def calls(self) -> list[str]:
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []


@dataclass
class Node:
    """One node; ``settings`` are changes to its configuration, by section."""

    folder: Path
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    name: str = "n1"

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.run_dir = self.folder / "run"
        self.state_dir = self.folder / "state"
        self.kmsg_file = self.folder / "kmsg"
        self.config_file = self.folder / "wheeltapper.toml"
        self.log_file = self.folder / "agent.log"
        self.run_dir.mkdir()
        self.kmsg_file.touch()
        self.slurm = Slurm(self.folder / "slurm")
        self.sequence = 0
        self.starts = 0
        self.agent: subprocess.Popen[bytes] | None = None
        self.sessions: set[int] = set()
        self.configure()

    def configure(self, **changes: dict[str, Any]) -> None:
        """Write the configuration with *changes*."""
        for section, values in changes.items():
            self.settings.setdefault(section, {}).update(values)
        sections: dict[str, dict[str, Any]] = {
            "node": {"name": self.name},
            "agent": {"run_dir": str(self.run_dir), "state_dir": str(self.state_dir), "kmsg": str(self.kmsg_file)},
            "controller": {"address": "127.0.0.1:9", "key_file": str(self.folder / "key")},
            "policy": {"mode": "quarantine"},
            "checks": {"off": OTHER_CHECKS},
        }
        for section, values in self.settings.items():
            sections.setdefault(section, {}).update(values)
        lines = []
        for section, values in sections.items():
            lines += [f"[{section}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
        self.config_file.write_text("\n".join(lines) + "\n")

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": f"{self.slurm.folder}:/usr/bin:/bin",
            "WHEELTAPPER_RUN_DIR": str(self.run_dir),
            "WHEELTAPPER_HOOKS_CONF": str(self.folder / "hooks.conf"),
        }

    # The agent

    def start(self) -> None:
        """Start the agent, and wait until it has judged the node or ended."""
        self.starts += 1
        with self.log_file.open("ab") as log:
            self.agent = subprocess.Popen(
                [sys.executable, "-m", "wheeltapper_hooks.agent", "run", "--config", str(self.config_file)],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.sessions.add(self.agent.pid)
        until(lambda: self._started() or self._ended(), "the agent")

    def _started(self) -> bool:
        return self.log.count("Watching ") == self.starts

    def _ended(self) -> bool:
        return self.agent is not None and self.agent.poll() is not None

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """End the agent by signal *how* and return its exit status."""
        assert self.agent is not None
        self.agent.send_signal(signal.SIGCONT)
        self.agent.send_signal(how)
        status = self.agent.wait(PATIENCE_S)
        self.agent = None
        return status

    def signal(self, how: signal.Signals) -> None:
        assert self.agent is not None
        self.agent.send_signal(how)

    def close(self) -> None:
        if self.agent is not None:
            self.stop(signal.SIGKILL)
        for child in self.children():
            with suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)  # one that a test made hang

    def children(self) -> list[int]:
        """What the agents of this node have started and left behind: each child leads a process group of its own."""
        alive = (int(each.name) for each in Path("/proc").glob("[0-9]*"))
        return [pid for pid in alive if _session(pid) in self.sessions]

    @property
    def log(self) -> str:
        return self.log_file.read_text()

    def status(self) -> dict[str, Any]:
        command = [
            sys.executable,
            "-m",
            "wheeltapper_hooks.agent",
            "status",
            "--json",
            "--config",
            str(self.config_file),
        ]
        ended = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=False, timeout=60)
        assert ended.returncode in {0, 1}, ended.stderr
        return json.loads(ended.stdout)

    # What it sees

    def kernel(self, text: str, *, facility: int = 0, usec: int | None = None) -> int:
        """Let the kernel log *text*, and return the record's sequence number."""
        self.sequence += 1
        usec = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000 if usec is None else usec
        with self.kmsg_file.open("a") as log:
            log.write(f"{facility * 8 + 4},{self.sequence},{usec},-;{text}\n")
        return self.sequence

    def lose_gpu(self, gpu: str = "0000:3b:00", *, facility: int = 0) -> int:
        return self.kernel(LOST.format(gpu=gpu), facility=facility)

    def convict(self, gpu: str = "0000:3b:00") -> None:
        """Lose a GPU, and wait until the verdict says so."""
        self.lose_gpu(gpu)
        until(lambda: self.state == "fail", "the verdict fail")

    # What it says

    @property
    def verdict_file(self) -> Path:
        return self.run_dir / "verdict"

    @property
    def state(self) -> str:
        try:
            said = self.verdict_file.read_text()
        except FileNotFoundError:  # an agent that cannot write a new one takes the old one away
            return ""
        return said.split()[0]

    def write_verdict(self, state: str, *, boot: str | None = None, left: float = 1000.0) -> None:
        self.verdict_file.write_text(f"{state} {boot or boot_id()} {int(uptime() + left)}\n")
        (self.run_dir / "jobs").mkdir(exist_ok=True)

    def marker(self, job: str) -> Path:
        return self.run_dir / "jobs" / job

    @property
    def hooks_log(self) -> str:
        path = self.run_dir / "hooks.log"
        return path.read_text() if path.exists() else ""

    # The hooks

    def hook(
        self, hook: str, job: str = "7", *, shell: str = "sh", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run *hook* as slurmd does."""
        slurm = {"SLURM_JOB_ID": job, "SLURM_JOB_UID": str(os.getuid()), "SLURMD_NODENAME": self.name, **environment}
        if hook == "healthcheck":
            slurm = {"SLURMD_NODENAME": self.name, **environment}
        return subprocess.run(
            [shell, str(HOOKS / hook)],
            env={**self.environment, **slurm},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=20,
        )
