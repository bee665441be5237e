"""A job's marker: the file, named after the job, that tells the epilog when the job's stay on this node began.

Three write it: the prolog's stub, the thin client without an agent, and the agent. The lines are KEY=value.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wheeltapper.evidence import pci_address

log = logging.getLogger(__name__)

DEAD_AFTER_S = 90 * 86_400.0
"""A job whose epilog never ran is forgotten after this long; no queue lets a job run for a quarter of a year."""


@dataclass(frozen=True, slots=True)
class Marker:
    """``uptime`` is in seconds since boot; ``gpus`` are the scheduler's indices as Slurm writes them."""

    uptime: float
    boot_id: str
    uid: str = ""
    gpus: str = ""

    def __str__(self) -> str:
        return f"uptime={self.uptime:.2f}\nboot_id={self.boot_id}\nuid={self.uid}\ngpus={self.gpus}\n"


def parse_marker(text: str) -> Marker | None:
    """Return the marker in *text*; None when it was cut short or is none."""
    pairs = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
    try:
        return Marker(float(pairs["uptime"]), pairs["boot_id"], pairs.get("uid", ""), pairs.get("gpus", ""))
    except (KeyError, ValueError):
        return None


def job_id(text: str) -> str | None:
    """Return *text* when it is a job's id, which is a number; anything else must not become part of a path."""
    return text if text.isascii() and text.isdigit() else None


def gpu_addresses(indices: str, gpus: Sequence[str]) -> tuple[str, ...]:
    """Return the PCI addresses of a job's GPUs from Slurm's *indices* (``0,2`` or ``0-3``) into the node's *gpus*.

    Empty when any of them is unknown: a wrong address would acquit a guilty GPU.
    """
    found: list[str | None] = []
    for part in filter(None, indices.split(",")):
        first, _, last = part.partition("-")
        if not (first.isdigit() and (last or first).isdigit()) or int(last or first) >= len(gpus):
            return ()
        found += [pci_address(gpus[index]) for index in range(int(first), int(last or first) + 1)]
    return () if None in found else tuple(each for each in found if each)


def gpu_count(indices: str) -> int:
    """Return how many GPUs Slurm's *indices* name; 0 when they are no indices."""
    spans = [part.partition("-") for part in indices.split(",")]
    if not all(first.isdigit() and (last or first).isdigit() for first, _, last in spans):
        return 0
    return sum(max(0, int(last or first) - int(first) + 1) for first, _, last in spans)


class Markers:
    """The folder of markers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, job: str, marker: Marker) -> None:
        """Leave the marker of *job*; without one its epilog only guesses, so failure is no more than logged."""
        try:
            (self._folder / job).write_text(str(marker), encoding="utf-8")
        except OSError as error:
            log.warning("The marker of job %s could not be written: %s.", job, error)

    def read(self, job: str) -> Marker | None:
        """Return the marker of *job*; None when there is none to rely on."""
        try:
            return parse_marker((self._folder / job).read_text(encoding="utf-8", errors="replace"))
        except OSError:
            return None

    def jobs(self) -> list[str]:
        """Return the jobs that have a marker: those that are here, and a few whose epilog never ran."""
        try:
            return sorted(path.name for path in self._folder.iterdir() if job_id(path.name))
        except OSError:
            return []

    def remove(self, job: str) -> None:
        """Forget *job*."""
        try:
            (self._folder / job).unlink(missing_ok=True)
        except OSError as error:
            log.warning("The marker of job %s could not be removed: %s.", job, error)

    def forget_the_dead(self, boot_id: str, uptime: float) -> None:
        """Remove markers of other boots, and those so old that their jobs cannot live."""
        for path in list(self._folder.iterdir()):
            marker = self.read(path.name)
            # One that says nothing may be in the middle of being written.
            if marker and (marker.boot_id != boot_id or uptime - marker.uptime > DEAD_AFTER_S):
                self.remove(path.name)
