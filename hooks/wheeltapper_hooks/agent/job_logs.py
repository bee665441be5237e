"""Reads a job's logs as the job's own user: a link to a file that the user may not read stays unread."""

from __future__ import annotations

import contextlib
import stat
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wheeltapper import codec
from wheeltapper.catalogue import Catalogue
from wheeltapper.evidence import Finding
from wheeltapper.scan import scan_file
from wheeltapper.scan.progress import step_in
from wheeltapper.wire import Answer, JobStay, LogReport
from wheeltapper_hooks.agent import rank_logs
from wheeltapper_hooks.agent.processes import become, in_child

FINDINGS_MAX = 2_000
"""Findings of one report, from the end of the logs: at the longest excerpts still under the wire's limit."""

FILES_MAX = 16
"""Files of one job that are read; Slurm knows of two."""


RANK_TAIL_BYTES = 4 << 20
"""Read from the end of a single rank's log: there may be 64 of them."""


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
            return codec.dumps(self.scan(stay, asked.read, asked.near, asked.names)).encode()

        try:
            return codec.loads(LogReport, await in_child(work, self.deadline))
        except (OSError, ValueError) as error:
            return LogReport(self.node, stay, (), tuple(f"{path}: {error}" for path in asked.read))

    def scan(
        self, stay: JobStay, paths: Sequence[str], near: Sequence[str] = (), names: Sequence[str] = ()
    ) -> LogReport:
        """Read the files at *paths*, and logs of single ranks *near* them, with the rights that this process has."""
        catalogue = self.load()
        findings: list[Finding] = []
        unreadable: list[str] = []
        steps: list[int] = []
        for path in paths[:FILES_MAX]:
            try:
                findings += self._scan_file(Path(path), catalogue, self.tail_bytes)
                steps += filter(None, [step_in(Path(path))])
            except OSError as error:
                unreadable.append(f"{path}: {error.strerror or error}")
        if stay.prolog_at is not None:
            for rank_log in rank_logs.find(near, names, stay.prolog_at, paths):
                with contextlib.suppress(OSError):  # nobody promised that it is there
                    findings += self._scan_file(rank_log, catalogue, min(self.tail_bytes, RANK_TAIL_BYTES))
                    steps += filter(None, [step_in(rank_log)])
        kept = tuple(findings[-FINDINGS_MAX:])
        return LogReport(self.node, stay, kept, tuple(unreadable), max(steps, default=None))

    def _scan_file(self, path: Path, catalogue: Catalogue, tail_bytes: int) -> list[Finding]:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError("not a regular file")  # a pipe would keep us waiting
        return scan_file(path, catalogue, node=self.node, tail_bytes=tail_bytes)
