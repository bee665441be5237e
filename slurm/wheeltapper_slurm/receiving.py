"""Writes reports that come at the same time into the journal together: one wait for the disk, not one for each."""

from __future__ import annotations

import asyncio
import sqlite3
from dataclasses import dataclass

from wheeltapper.wire import LogReport, Report
from wheeltapper_slurm.journal import Journal

TOGETHER_S = 0.002
"""How long a report waits for company: a commit takes about as long, and no person notices it."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A report, when it came (Unix seconds), and what is settled when it is on the disk."""

    report: Report | LogReport
    at: float
    written: asyncio.Future[None]


class Receiving:
    """Takes reports for *journal*. Whoever awaits :meth:`write` goes on when its report is on the disk, not before."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._waiting: list[_Waiting] = []

    async def write(self, report: Report | LogReport, now: float) -> None:
        """Write down *report*, which came at *now* (Unix seconds).

        Raises:
            sqlite3.Error: the journal cannot be written; nothing of what came together with it was.
        """
        loop = asyncio.get_running_loop()
        waiting = _Waiting(report, now, loop.create_future())
        self._waiting.append(waiting)
        if len(self._waiting) == 1:
            loop.call_later(TOGETHER_S, self._write_all)
        await waiting.written

    def _write_all(self) -> None:
        together, self._waiting = self._waiting, []
        error = None
        try:
            self._journal.receive_all([(each.report, each.at) for each in together])
        except sqlite3.Error as failed:
            error = failed
        for each in together:
            if each.written.done():
                continue  # its peer was cut off meanwhile; that it is written down does no harm
            if error is None:
                each.written.set_result(None)
            else:
                each.written.set_exception(error)
