"""Logs of a job that Slurm does not know of: those of srun's tasks and of torchrun's workers.

The names are the user's choice, inside a script that nobody tells us of. What they have in common: they lie near the
job's own output, were written while it ran, and carry the job's number or torchrun's own folder names.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ENTRIES_MAX = 20_000
"""Names looked at: a folder with more is somebody's data."""

DEPTH_MAX = 5
"""Folders below the job's own: torchrun puts a log four deep (log folder, run, attempt, rank)."""

SEARCH_S = 5.0
"""A file system that is slower than this is not searched to its end; the job's own logs were read before."""

RANK_FILES_MAX = 64
"""The newest of them: who was killed first wrote last but a few."""

SKEW_S = 5.0
"""A file server's clock may be off from ours."""

_TEXT = re.compile(r"/[^/.]+$|\.(?:log|out|err|txt|jsonl?|stdout|stderr|\d+)$", re.IGNORECASE)
"""Names of text: no ending, or one of a log. A checkpoint's name carries numbers too."""

_TORCHRUN = re.compile(r"/attempt_\d+/\d+/(?:stdout|stderr)\.log$")


def find(folders: Iterable[str], names: Sequence[str], since: float, known: Iterable[str]) -> list[Path]:
    """Return the logs near *folders* that belong to a job with these *names* (its numbers), the newest first.

    *since* is when the job began, in Unix seconds; files older than that are another's. *known* are left out.
    """
    if not names:
        return []
    marks = re.compile("|".join(rf"(?<![0-9]){re.escape(name)}(?![0-9])" for name in names))
    left_out = set(known)
    search = _Search(since - SKEW_S, time.monotonic() + SEARCH_S)
    found = {
        path: changed
        for folder in dict.fromkeys(folders)
        for path, changed in search.files(folder)
        if path not in left_out and _TEXT.search(path) and (marks.search(path[len(folder) :]) or _TORCHRUN.search(path))
    }
    newest = sorted(found, key=lambda path: (-found[path], path))
    return [Path(path) for path in newest[:RANK_FILES_MAX]]


class _Search:
    """One search, bounded in time and in the names that it looks at."""

    def __init__(self, since: float, deadline: float) -> None:
        self._since = since
        self._deadline = deadline
        self._left = ENTRIES_MAX

    def files(self, folder: str, depth: int = 0) -> Iterator[tuple[str, float]]:
        """Yield the regular files below *folder* that were written since, with when; links are not followed."""
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    self._left -= 1
                    if self._left < 0 or time.monotonic() > self._deadline:
                        return
                    yield from self._look(entry, depth)
        except OSError:
            return  # it is gone, or not the user's to read

    def _look(self, entry: os.DirEntry[str], depth: int) -> Iterator[tuple[str, float]]:
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            return
        # A new file changes its folder's time, so an old folder holds nothing new.
        if status.st_mtime < self._since:
            return
        if stat.S_ISDIR(status.st_mode) and depth < DEPTH_MAX:
            yield from self.files(entry.path, depth + 1)
        elif stat.S_ISREG(status.st_mode):
            yield entry.path, status.st_mtime
