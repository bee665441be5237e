"""Where a job's output went: Slurm hands out the pattern as the user wrote it, and we fill it in."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from wheeltapper_slurm.spool import Ended

_FIELD = re.compile(r"%(\d*)([%AaJjNnstuxbW])")
_UNLIMITED_TASK = "4294967294"
"""What Slurm writes for %a when the job is no array (NO_VAL)."""


def paths(ended: Ended, batch_host: str | None) -> tuple[str, ...]:
    """Return the files that the batch step of *ended* wrote, standard output first.

    Slurm's rules: a relative name starts at the job's working folder; without a name it is ``slurm-%j.out``, or
    ``slurm-%A_%a.out`` for a task of an array; standard error joins standard output unless it has its own name.
    """
    default = "slurm-%A_%a.out" if ended.array_job else "slurm-%j.out"
    patterns = dict.fromkeys([ended.stdout or default, *([ended.stderr] if ended.stderr else [])])
    found = (expand(pattern, ended, batch_host) for pattern in patterns)
    return tuple(dict.fromkeys(path for path in found if path not in {"/dev/null", ""}))


def near(ended: Ended, read: tuple[str, ...]) -> tuple[str, ...]:
    """Return the folders in which the steps of *ended* may have left logs of their own; *read* are its own logs."""
    folders = [ended.work_dir, *(str(PurePosixPath(path).parent) for path in read)]
    return tuple(dict.fromkeys(folder for folder in folders if folder.strip("/")))


def names(ended: Ended) -> tuple[str, ...]:
    """Return the numbers by which *ended* goes in the names of its files: its own, and ``12_3`` for a task."""
    return tuple(dict.fromkeys([ended.id, ended.target]))


def expand(pattern: str, ended: Ended, batch_host: str | None) -> str:
    r"""Return *pattern* as Slurm would open it. A backslash anywhere switches every replacement off."""
    if "\\" in pattern:
        name = pattern.replace("\\", "")
    else:
        name = _FIELD.sub(lambda found: _replacement(found.group(1), found.group(2), ended, batch_host), pattern)
    return str(PurePosixPath(ended.work_dir or "/") / name)


def _replacement(width: str, letter: str, ended: Ended, batch_host: str | None) -> str:
    if letter == "%":
        return "%"
    host = batch_host or (ended.nodes[0] if ended.nodes else "")
    task = ended.array_task or _UNLIMITED_TASK
    values = {
        "A": ended.array_job or ended.id,
        "a": task,
        "b": str(int(task) % 10),
        "J": ended.id,
        "j": ended.id,
        "N": host.partition(".")[0],
        "n": "0",
        "s": "batch",
        "t": "0",
        "u": ended.user,
        "x": ended.name,
        "W": ended.work_dir,
    }
    value = values[letter]
    # A number between % and the letter pads a number with zeros; Slurm caps it at ten.
    return value.zfill(min(int(width), 10)) if width and value.isdigit() else value
