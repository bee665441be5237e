"""Looks at the node and keeps its verdict: follows the kernel log, counts the GPUs, judges, writes the verdict file."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable

from wheeltapper import kmsg
from wheeltapper.catalogue import Catalogue
from wheeltapper.checks.gpu import count as gpu_count
from wheeltapper.checks.model import Host, NoLimits, NotApplicable, Reading
from wheeltapper.config import Config
from wheeltapper.evidence import Finding
from wheeltapper.scan import scan_kernel
from wheeltapper.verdict import Verdict
from wheeltapper_hooks.agent import files
from wheeltapper_hooks.agent.boot import KernelClock, uptime
from wheeltapper_hooks.agent.judge import judge, settling_key, still_telling
from wheeltapper_hooks.agent.kernel_log import KernelLog
from wheeltapper_hooks.agent.store import Store

log = logging.getLogger(__name__)

POLL_S = 0.05
"""How often a plain file is looked at; the device wakes us itself."""

REOPEN_S = 1.0
"""How often a kernel log that could not be opened is tried again."""

KNOWN_MAX = 4_000
"""Findings of this boot kept at hand for judging; beyond it, those that no longer matter are let go."""


class Watch:
    """What this node is known to suffer from, and the verdict on it."""

    def __init__(self, config: Config, node: str, boot_id: str, store: Store, catalogue: Catalogue) -> None:
        self.config = config
        self.node = node
        self.boot_id = boot_id
        self.cursor = store.cursor()
        self._store = store
        self._catalogue = catalogue
        self._settled = store.marked("settled")
        self._clock = KernelClock()
        self._log: KernelLog | None = None
        self._caught_up = False
        self._blind = {"kernel log": "the kernel log was not read yet"}
        known = store.since(0.0, KNOWN_MAX)
        self._known = [each for each in known if each.signature != gpu_count.CHECK.signature]
        self._lost = tuple(each for each in known if each.signature == gpu_count.CHECK.signature)[-1:]
        self._unwritable = ""
        self._changed = False
        self.turned = asyncio.Event()
        self.turned_at = uptime()
        self.verdict = self._judge()

    async def follow(self) -> None:
        """Look whenever the kernel log grows, for ever."""
        while True:
            self.look()
            if self._log is None:
                await asyncio.sleep(REOPEN_S)
            else:
                await _until_it_may_have_grown(self._log)

    async def refresh_for_ever(self) -> None:
        """Count the GPUs and renew the verdict before a third of its life is over, for ever."""
        while True:
            self.refresh()
            await asyncio.sleep(self.config.agent.verdict_valid_s / 3)

    def look(self) -> Verdict:
        """Read what the kernel has written since, and return the verdict; the verdict file follows a change at once."""
        source = self._log or self._open()
        while source is not None and not self._take_lines(source):
            pass
        self._publish(always=False)
        return self.verdict

    def refresh(self) -> None:
        """Look at everything, and renew the verdict file."""
        self._count_gpus()
        self.look()
        self._publish(always=True)

    def settle(self, findings: Iterable[Finding]) -> None:
        """A person has put the node back to work in spite of *findings*: they count no more."""
        self._store.mark("settled", [settling_key(each) for each in findings])
        self._settled = self._store.marked("settled")
        self._publish(always=True)
        self.write_settings()

    def since(self, at: float, limit: int) -> list[Finding]:
        """Return the findings of this boot from *at* on, the oldest first."""
        return self._store.since(at, limit)

    def write_settings(self) -> None:
        """Leave what hooks must know when we do not answer."""
        settled = frozenset(
            each.evidence.sequence
            for each in self._known
            if each.evidence.sequence is not None and settling_key(each) in self._settled
        )
        text = files.render_settings(self.config, self.node, self.boot_id, settled)
        self._write("settings", text)

    def close(self) -> None:
        """Remember the place in the kernel log, and take the verdict away: nobody stands behind it from now on."""
        self._store.add((), self.cursor)
        self._remove_verdict()
        if self._log is not None:
            self._log.close()

    def _open(self) -> KernelLog | None:
        try:
            self._log = KernelLog(self.config.agent.kmsg)
        except OSError as error:
            self._go_blind("kernel log", f"the kernel log cannot be read: {error}")
        return self._log

    def _take_lines(self, source: KernelLog) -> bool:
        """Take up what *source* holds; return whether there is nothing more for now."""
        try:
            lines, drained = source.read()
        except OSError as error:
            self._go_blind("kernel log", f"the kernel log cannot be read: {error}")
            source.close()
            self._log = None
            return True
        found: list[Finding] = []
        for record in filter(None, map(kmsg.parse_record, lines)):
            if not self._caught_up and record.sequence <= self.cursor:
                continue
            self.cursor = record.sequence
            found += scan_kernel(
                record, self._catalogue, node=self.node, boot_id=self.boot_id, at=self._clock.wall(record.usec)
            )
        if found:
            self._keep(found)
        if drained:
            self._caught_up = True
            self._clock.looked()
            self._see_again("kernel log")
        return drained

    def _keep(self, found: list[Finding]) -> None:
        for each in found:
            log.info("The kernel log shows %s: %s", each.signature, each.evidence.text)
        self._store.add(found, self.cursor)
        self._known += found
        self._changed = True
        if len(self._known) > KNOWN_MAX:
            self._known = still_telling(self._known)

    def _count_gpus(self) -> None:
        agent = self.config.agent
        host = Host(self.node, self.boot_id, self.config.node, agent.sysfs, agent.procfs, agent.dev, agent.run)
        try:
            present = Reading(time.time(), gpu_count.PROBE.read(host))
        except NotApplicable:
            self._lost = ()
            return
        except OSError as error:
            self._go_blind("PCI", f"PCI devices cannot be listed: {error}")
            return
        self._see_again("PCI")
        lost = tuple(gpu_count.judge((present,), host, NoLimits()))
        if [settling_key(each) for each in lost] != [settling_key(each) for each in self._lost]:
            self._lost = lost
            self._store.add(lost)

    def _go_blind(self, where: str, why: str) -> None:
        if self._blind.get(where) != why:
            log.error("The node cannot be judged in full, because %s.", why)
            self._blind[where] = why
            self._changed = True

    def _see_again(self, where: str) -> None:
        if self._blind.pop(where, None):
            self._changed = True

    def _judge(self) -> Verdict:
        state, findings, note = judge([*self._known, *self._lost], self._settled, "; ".join(self._blind.values()))
        valid_for = self.config.agent.verdict_valid_s
        return Verdict(self.node, state, time.time(), valid_for, self.boot_id, findings, note)

    def _publish(self, *, always: bool) -> None:
        if not self._changed and not always:
            return
        self._changed = False
        before, self.verdict = self.verdict, self._judge()
        if (before.state, before.findings) != (self.verdict.state, self.verdict.findings):
            log.warning("The verdict was %s; now %s.", before.state.value, self.verdict)
            self.turned.set()
        if before.state is not self.verdict.state:
            self.turned_at = uptime()
        if not self._write("verdict", files.render_verdict(self.verdict, uptime())):
            self._remove_verdict()

    def _remove_verdict(self) -> None:
        # Without a verdict hooks ask; an old one might pass a job that must not pass.
        with contextlib.suppress(OSError):
            (self.config.agent.run_dir / "verdict").unlink()

    def _write(self, name: str, text: str) -> bool:
        path = self.config.agent.run_dir / name
        try:
            files.replace(path, text)
        except OSError as error:
            if self._unwritable != str(error):
                log.error("%s cannot be written (%s): hooks will ask instead.", path, error)
            self._unwritable = str(error)
            return False
        self._unwritable = ""
        return True


async def _until_it_may_have_grown(source: KernelLog) -> None:
    if not source.is_device:
        await asyncio.sleep(POLL_S)
        return
    loop = asyncio.get_running_loop()
    grown = asyncio.Event()
    loop.add_reader(source.fd, grown.set)
    try:
        await grown.wait()
    finally:
        loop.remove_reader(source.fd)
