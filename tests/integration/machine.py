"""A machine in a file: what its roots hold at each reading, and what a check must say of it.

``expect`` is a list of findings as ``label disposition detail gpu=ADDRESS`` (the last two where there are any), or
``not applicable``, or ``unreadable``. ``node`` is the configuration's table of that name, ``limits`` are the check's.
Each ``[[reading]]`` has ``files`` (path under the root: content, a list for lines), ``programs`` (likewise, and may be
run), ``links`` (path: target), ``gone`` (paths taken away), ``folders`` (paths), ``after_s`` (seconds since the reading
before, 60 when absent), ``times`` (how many readings are like this one, 1 when absent), ``nvml`` (what NVML says, see
``fake_nvml``), ``deadline_s`` (instead of the probe's own), ``calls`` (what the machine answers to system calls, see
:class:`Calls`).

What may hang is read as the agent does it: in a child with a deadline.
"""

from __future__ import annotations

import asyncio
import pickle
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tests.integration import fake_nvml
from tests.unit.make import BOOT
from wheeltapper.checks import calls
from wheeltapper.checks.model import Check, Host, NotApplicable, Probe, Reading
from wheeltapper.config import NodeSection
from wheeltapper.evidence import Finding
from wheeltapper_hooks.agent.processes import in_child

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DATA = Path(__file__).resolve().parents[1] / "data" / "checks"

BEGAN = 1_000_000.0


@dataclass(frozen=True)
class Machine:
    """One fixture file of one check."""

    path: Path

    @property
    def told(self) -> dict[str, Any]:
        return tomllib.loads(self.path.read_text())

    def ask(self, check: Check[Any], folder: Path) -> list[str] | str:
        """Return what *check* says of the machine, its roots being in *folder*, in the words of ``expect``."""
        told = self.told
        host = Host(
            "n1",
            BOOT,
            NodeSection.model_validate(told.get("node", {})),
            **{root: folder / name for root, name in ROOTS.items()},
            root=folder,
        )
        limits = check.limits.model_validate(told.get("limits", {}))
        readings: list[Reading[Any]] = []
        at = BEGAN
        try:
            for step in told["reading"]:
                _build(folder, step)
                with mock.patch.multiple(calls, **Calls(folder, step.get("calls", {})).all()):
                    value = read(check.probe, host, folder, step)
                for _ in range(step.get("times", 1)):
                    at += step.get("after_s", 60.0)
                    readings.append(Reading(at, value))
            return [in_words(each) for each in check.judge(readings, host, limits)]
        except NotApplicable:
            return "not applicable"
        except (OSError, ValueError):
            return "unreadable"


@dataclass(frozen=True)
class Calls:
    """A machine's answers to system calls.

    ``usages`` holds for a mount point its size, what is free, both in GiB, ``seconds``, and inodes where they matter,
    or "silent"; ``kernel_clock`` whether the clock is kept, and its offset; ``resolve`` for a name its seconds, or the
    error; ``nic_statistics`` the counters of an interface.
    """

    folder: Path
    told: dict[str, Any]

    def all(self) -> dict[str, Any]:
        """Return the functions that stand in for those of the module."""
        return {name: getattr(self, name) for name in ("usages", "kernel_clock", "resolve", "nic_statistics")}

    def usages(self, paths: Iterable[Path], patience_s: float) -> dict[Path, calls.Usage | None]:
        known = self.told.get("usages", {})
        return {path: _usage(known[point]) for path in paths if (point := self._point(path)) in known}

    def kernel_clock(self) -> tuple[bool, float]:
        is_kept, offset_s = self.told["kernel_clock"]
        return is_kept, offset_s

    def resolve(self, name: str) -> float:
        name.encode("idna")  # what is no name is refused before anybody is asked, as getaddrinfo does
        answer = self.told["resolve"][name]
        if isinstance(answer, str):
            raise OSError(-2, answer)
        return float(answer)

    def nic_statistics(self, interface: str) -> dict[str, int]:
        if interface not in self.told.get("nic_statistics", {}):
            raise OSError("the driver counts nothing")
        return dict(self.told["nic_statistics"][interface])

    def _point(self, path: Path) -> str:
        return f"/{path.relative_to(self.folder)}" if path != self.folder else "/"


def _usage(told: dict[str, Any] | str) -> calls.Usage | None:
    if isinstance(told, str):
        return None
    gib = 1 << 30
    return calls.Usage(
        int(told["size"] * gib),
        int(told["free"] * gib),
        told.get("inodes", 0),
        told.get("inodes_free", 0),
        told.get("seconds", 0.001),
    )


ROOTS = {"sysfs": "sys", "procfs": "proc", "dev": "dev", "run": "run"}


def read(probe: Probe[Any], host: Host, folder: Path, step: dict[str, Any]) -> Any:
    """Return what *probe* reads of *host*, whose roots are in *folder*, at this *step*; raise what it raises."""
    if not probe.may_hang:
        return probe.read(host)
    told = step.get("nvml")
    scenario = fake_nvml.lay(folder, told) if told is not None else None
    library = fake_nvml.library(old_driver=told.get("old_driver", False)) if told is not None else None

    def work() -> bytes:
        if library is not None and scenario is not None:
            fake_nvml.load(library, scenario)
        try:
            return pickle.dumps(probe.read(host))
        except (NotApplicable, OSError, ValueError) as error:
            return pickle.dumps(error)

    value = pickle.loads(asyncio.run(in_child(work, step.get("deadline_s", probe.deadline_s))))
    if isinstance(value, Exception):
        raise value
    return value


def in_words(finding: Finding) -> str:
    """Return *finding* as fixtures name it."""
    seen = finding.evidence
    words = [finding.label, finding.disposition.value, finding.detail, f"gpu={seen.gpu}" if seen.gpu else ""]
    return " ".join(word for word in words if word)


def _build(folder: Path, step: dict[str, Any]) -> None:
    for name in step.get("gone", ()):
        gone = folder / name
        shutil.rmtree(gone) if gone.is_dir() and not gone.is_symlink() else gone.unlink()
    for name in step.get("folders", ()):
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name, content in step.get("files", {}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else "\n".join(content) + "\n")
    for name, content in step.get("programs", {}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o755)
    for name, target in step.get("links", {}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.symlink_to(target)
