"""Reads a job's logs as the job's own user: a link to a file that the user may not read stays unread."""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wheeltapper import codec
from wheeltapper.catalogue import Catalogue
from wheeltapper.evidence import Finding
from wheeltapper.scan import scan_file
from wheeltapper.wire import Answer, JobStay, LogReport
from wheeltapper_hooks.agent.processes import become, in_child

FINDINGS_MAX = 2_000
"""Findings of one report, from the end of the logs: at the longest excerpts still under the wire's limit."""

FILES_MAX = 16
"""Files of one job that are read; Slurm knows of two."""


@dataclass(frozen=True, slots=True)
class LogReader:
    """How logs are read on this node: by which signatures, how far from the end, and for how many seconds.

    ``load`` is called in the child: a job's end is rare, and the signatures of logs are many.
    """

    node: str
    load: Callable[[], Catalogue]
    tail_bytes: int
    deadline: float

    async def read(self, stay: JobStay, asked: Answer) -> LogReport:
        """Return what the logs that the controller *asked* for hold. What cannot be read is named in the report."""
        if asked.uid is None or asked.gid is None:
            return LogReport(self.node, stay, (), tuple(f"{path}: whose it is was not said" for path in asked.read))
        uid, gid = asked.uid, asked.gid

        def work() -> bytes:
            become(uid, gid)
            return codec.dumps(self.scan(stay, asked.read)).encode()

        try:
            return codec.loads(LogReport, await in_child(work, self.deadline))
        except (OSError, ValueError) as error:
            return LogReport(self.node, stay, (), tuple(f"{path}: {error}" for path in asked.read))

    def scan(self, stay: JobStay, paths: Sequence[str]) -> LogReport:
        """Read the files at *paths* with the rights that this process has."""
        catalogue = self.load()
        findings: list[Finding] = []
        unreadable: list[str] = []
        for path in paths[:FILES_MAX]:
            try:
                findings += self._scan_file(Path(path), catalogue)
            except OSError as error:
                unreadable.append(f"{path}: {error.strerror or error}")
        return LogReport(self.node, stay, tuple(findings[-FINDINGS_MAX:]), tuple(unreadable))

    def _scan_file(self, path: Path, catalogue: Catalogue) -> list[Finding]:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError("not a regular file")  # a pipe would keep us waiting
        return scan_file(path, catalogue, node=self.node, tail_bytes=self.tail_bytes)
