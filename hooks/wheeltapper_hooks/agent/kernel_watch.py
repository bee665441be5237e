"""Follows the kernel log: what it has said of this node since the boot."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wheeltapper import drills, kmsg
from wheeltapper.catalogue import Catalogue
from wheeltapper.evidence import Finding
from wheeltapper.scan import scan_kernel
from wheeltapper_hooks.agent.boot import KernelClock
from wheeltapper_hooks.agent.judge import still_telling
from wheeltapper_hooks.agent.kernel_log import KernelLog

log = logging.getLogger(__name__)

POLL_S = 0.05
"""How often a plain file is looked at that nothing tells of; the device wakes us itself."""

ROTATED_S = 1.0
"""How often a plain file is looked at that wakes us: another may bear its name by now."""

REOPEN_S = 1.0
"""How often a kernel log that could not be opened is tried again."""

KNOWN_MAX = 4_000
"""Findings of this boot kept at hand for judging; beyond it, those that no longer matter are let go."""

BATCHES_MAX = 4
"""Reads of one look: in a flood of lines hooks are answered all the same, and the rest is read at the next look."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """What is known when the following begins: findings of this boot, and the last record that was looked at."""

    findings: Sequence[Finding] = ()
    cursor: int = -1


class KernelWatch:
    """The kernel log at *path*. *keep* takes findings and the number of the record up to which they were looked for.

    ``drills`` holds what was found of a drill, by its id, where somebody waits for one; it is no part of what is known.
    """

    def __init__(
        self,
        path: Path,
        node: str,
        boot_id: str,
        catalogue: Catalogue,
        keep: Callable[[Sequence[Finding], int], None],
        remembered: Remembered = Remembered(),
    ) -> None:
        self.cursor = remembered.cursor
        self.known = list(remembered.findings)
        self.blind = "the kernel log was not read yet"
        self.drills: dict[str, tuple[Finding, ...] | None] = {}
        self._path = path
        self._node = node
        self._boot_id = boot_id
        self._catalogue = catalogue
        self._keep = keep
        self._clock = KernelClock()
        self._log: KernelLog | None = None
        self._caught_up = False
        self._is_behind = False
        self._changed = False

    def look(self) -> bool:
        """Read what the kernel has written since; return whether that changed anything."""
        source = self._log or self._open()
        for _ in range(BATCHES_MAX):
            if source is None or self._take_lines(source):
                break
        changed, self._changed = self._changed, False
        return changed

    async def until_it_may_have_grown(self) -> None:
        """Wait until there may be something to look at."""
        source = self._log
        if source is None:
            await asyncio.sleep(REOPEN_S)
            return
        if self._is_behind:
            await asyncio.sleep(0)
            return
        wakes = source.wakes
        if wakes is None:
            await asyncio.sleep(POLL_S)
            return
        loop = asyncio.get_running_loop()
        grown = asyncio.Event()
        later = None if source.is_device else loop.call_later(ROTATED_S, grown.set)
        loop.add_reader(wakes, grown.set)
        try:
            await grown.wait()
        finally:
            loop.remove_reader(wakes)
            if later is not None:
                later.cancel()

    def close(self) -> None:
        """Remember the place in the log, and let it go."""
        self._keep((), self.cursor)
        if self._log is not None:
            self._log.close()

    def _open(self) -> KernelLog | None:
        try:
            self._log = KernelLog(self._path)
        except OSError as error:
            self._go_blind(f"the kernel log cannot be read: {error}")
        return self._log

    def _take_lines(self, source: KernelLog) -> bool:
        """Take up what *source* holds; return whether there is nothing more for now."""
        try:
            lines, drained = source.read()
        except OSError as error:
            self._go_blind(f"the kernel log cannot be read: {error}")
            source.close()
            self._log = None
            return True
        self._is_behind = not drained
        found: list[Finding] = []
        for record in filter(None, map(kmsg.parse_record, lines)):
            if not self._caught_up and record.sequence <= self.cursor:
                continue
            self.cursor = record.sequence
            drill = drills.played(record)
            if drill is not None:
                mark, record = drill  # noqa: PLW2901 - the same record, with its mark taken off
                if mark in self.drills:
                    self.drills[mark] = self._scan(record)
            else:
                found += self._scan(record)
        if found:
            _say(found)
            self._keep(found, self.cursor)
            self.known += found
            self._changed = True
            if len(self.known) > KNOWN_MAX:
                self.known = still_telling(self.known)
        if drained:
            self._caught_up = True
            self._clock.looked()
            self._changed |= bool(self.blind)
            self.blind = ""
        return drained

    def _scan(self, record: kmsg.Record) -> tuple[Finding, ...]:
        at = self._clock.wall(record.usec)
        return scan_kernel(record, self._catalogue, node=self._node, boot_id=self._boot_id, at=at)

    def _go_blind(self, why: str) -> None:
        if self.blind != why:
            log.error("The node cannot be judged in full, because %s.", why)
            self._changed = True
        self.blind = why


def _say(found: Iterable[Finding]) -> None:
    """Log what was *found*; what one GPU repeats in lines that were read at once is one line with their number."""
    alike: defaultdict[tuple[str, str | None], list[Finding]] = defaultdict(list)
    for each in found:
        alike[each.signature, each.evidence.gpu].append(each)
    for (signature, _), findings in alike.items():
        times = f" ({len(findings)} times)" if len(findings) > 1 else ""
        log.info("The kernel log shows %s%s: %s", signature, times, findings[0].evidence.text)
