"""What EpilogSlurmctld leaves for us: one file per ended job, its own environment, NUL between the entries."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from wheeltapper_slurm import hostlist


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that ended, in the words of slurmctld's environment. ``at`` is in Unix seconds.

    ``id`` is the job's own number; ``target`` is what actions must name: the task for a task of an array, since one
    task of every array keeps the master's number and an action on that hits all of them. ``het_job`` is the number of
    a heterogeneous job's leader.
    """

    id: str
    target: str
    at: float
    name: str
    user: str
    uid: int | None
    gid: int | None
    partition: str
    nodes: tuple[str, ...]
    exit_code: int
    signal: int
    restarts: int
    work_dir: str
    stdout: str
    stderr: str
    sluid: str
    start: float | None
    array_job: str
    array_task: str
    comment: str = ""
    het_job: str = ""

    @property
    def is_component(self) -> bool:
        """True for a part of a heterogeneous job that is not its leader: only the leader can be acted on."""
        return self.het_job not in {"", self.id}


def parse(raw: bytes, at: float) -> Ended:
    """Return the ended job in *raw*, a file that was written at *at* (Unix seconds).

    Raises:
        ValueError: there is no job in it, or its node list is wrong.
    """
    entries = (part.decode("utf-8", "replace").partition("=") for part in raw.split(b"\0") if part)
    env = {key: "" if value == "(null)" else value for key, _, value in entries}
    job = env.get("SLURM_JOB_ID", "")
    if not job.isdigit():
        raise ValueError(f"SLURM_JOB_ID is {job!r}")
    array_job, array_task = env.get("SLURM_ARRAY_JOB_ID", ""), env.get("SLURM_ARRAY_TASK_ID", "")
    code, _, signal = env.get("SLURM_JOB_EXIT_CODE2", "0:0").partition(":")
    return Ended(
        id=job,
        target=f"{array_job}_{array_task}" if array_job.isdigit() and array_task.isdigit() else job,
        at=at,
        name=env.get("SLURM_JOB_NAME", ""),
        user=env.get("SLURM_JOB_USER", ""),
        uid=_number(env.get("SLURM_JOB_UID")),
        gid=_number(env.get("SLURM_JOB_GID")),
        partition=env.get("SLURM_JOB_PARTITION", ""),
        # Of a heterogeneous job the leader alone is told the nodes of all components.
        nodes=hostlist.expand(env.get("SLURM_HET_JOB_NODELIST") or env.get("SLURM_JOB_NODELIST", "")),
        exit_code=_number(code) or 0,
        signal=_number(signal) or 0,
        restarts=_number(env.get("SLURM_JOB_RESTART_COUNT")) or 0,
        work_dir=env.get("SLURM_JOB_WORK_DIR", ""),
        stdout=env.get("SLURM_JOB_STDOUT", ""),
        stderr=env.get("SLURM_JOB_STDERR", ""),
        sluid=env.get("SLURM_JOB_SLUID", "") or env.get("SLURM_SLUID", ""),
        start=_number(env.get("SLURM_JOB_START_TIME")),
        array_job=array_job,
        array_task=array_task,
        comment=env.get("SLURM_JOB_COMMENT", ""),
        het_job=env.get("SLURM_HET_JOB_ID", "").lstrip("0"),
    )


def waiting(folder: Path) -> list[Path]:
    """Return the files that are whole, oldest first; a name that starts with a dot is still being written."""
    try:
        files = [(entry.stat().st_mtime, entry) for entry in folder.iterdir() if not entry.name.startswith(".")]
    except FileNotFoundError:
        return []
    return [entry for _, entry in sorted(files)]


def sweep(folder: Path, before: float) -> None:
    """Remove what was begun before *before* (Unix seconds) and never finished: its writer was killed."""
    for entry in folder.glob(".[0-9]*"):
        with contextlib.suppress(FileNotFoundError):
            if entry.stat().st_mtime < before:
                entry.unlink()


def _number(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None
