"""Keeps the node's verdict: joins what the kernel log says with what the checks say, and writes the verdict file."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from wheeltapper.catalogue import Catalogue
from wheeltapper.checks.model import Host
from wheeltapper.checks.outcome import Outcome
from wheeltapper.checks.registry import Chosen
from wheeltapper.config import Config
from wheeltapper.evidence import Finding, Source
from wheeltapper.verdict import Verdict
from wheeltapper_hooks.agent import files
from wheeltapper_hooks.agent.boot import uptime
from wheeltapper_hooks.agent.judge import settling_key
from wheeltapper_hooks.agent.kernel_watch import KNOWN_MAX, KernelWatch, Remembered
from wheeltapper_hooks.agent.runner import Runner
from wheeltapper_hooks.agent.standing import as_witness, places
from wheeltapper_hooks.agent.store import Store
from wheeltapper_hooks.agent.view import outcomes_of, verdict_of

log = logging.getLogger(__name__)


class Watch:
    """What this node is known to suffer from, and the verdict on it."""

    def __init__(
        self,
        config: Config,
        host: Host,
        chosen: Sequence[Chosen],
        store: Store,
        catalogue: Catalogue,
        is_idle: Callable[[], bool],
    ) -> None:
        self.config = config
        self.node = host.node
        self.boot_id = host.boot_id
        self.host = host
        self._store = store
        self._settled = store.marked("settled")
        known = [each for each in store.since(0.0, KNOWN_MAX) if each.evidence.source is Source.KERNEL]
        remembered = Remembered(known, store.cursor())
        self.kernel = KernelWatch(config.agent.kmsg, host.node, host.boot_id, catalogue, store.add, remembered)
        self.runner = Runner(chosen, host, self._checks_changed, is_idle)
        self.runner.restore(store.standing())
        self._unwritable = ""
        self.turned = asyncio.Event()
        self.turned_at = uptime()
        self.verdict = self._judge()

    def use(self, config: Config, host: Host, chosen: Sequence[Chosen]) -> None:
        """Go on under another configuration."""
        self.config, self.host = config, host
        self.runner.use(chosen, host)
        self.write_settings()

    async def follow(self) -> None:
        """Look whenever the kernel log grows, for ever."""
        while True:
            self.look()
            await self.kernel.until_it_may_have_grown()

    async def refresh_for_ever(self) -> None:
        """Renew the verdict before a third of its life is over, for ever."""
        while True:
            self.refresh()
            await asyncio.sleep(self.config.agent.verdict_valid_s / 3)

    def look(self) -> Verdict:
        """Read what the kernel has written since, and return the verdict; the verdict file follows a change at once."""
        if self.kernel.look():
            self._publish()
        return self.verdict

    def refresh(self) -> None:
        """Look at the kernel log, and renew the verdict file."""
        self.kernel.look()
        self._publish()

    def outcomes(self) -> tuple[Outcome, ...]:
        """Return what the kernel log and each check say now."""
        return outcomes_of(self.kernel, self.runner, self._settled)

    def settle(self, findings: Iterable[Finding]) -> None:
        """A person has put the node back to work in spite of *findings*: they count no more."""
        self._store.mark("settled", [settling_key(each) for each in findings])
        self._settled = self._store.marked("settled")
        self._publish()
        self.write_settings()

    def since(self, at: float, limit: int) -> list[Finding]:
        """Return the findings of this boot from *at* on, the oldest first, and what checks have warned of since before.

        What stood before a job came did not begin its end: it is a witness, and no root.
        """
        older = [each for each in self.runner.standing if not each.convicts and (each.evidence.at or 0.0) < at]
        witnesses = [as_witness(each, time.time()) for each in older[:limit]]
        return [*self._store.since(at, limit - len(witnesses)), *witnesses]

    def write_settings(self) -> None:
        """Leave what hooks must know when we do not answer."""
        settled = frozenset(
            each.evidence.sequence
            for each in self.kernel.known
            if each.evidence.sequence is not None and settling_key(each) in self._settled
        )
        self._write("settings", files.render_settings(self.config, self.node, self.boot_id, settled))

    def close(self) -> None:
        """Remember the place in the kernel log, and take the verdict away: nobody stands behind it from now on."""
        self.kernel.close()
        self._remove_verdict()

    def _checks_changed(self, began: Sequence[Finding], ended: Sequence[Finding]) -> None:
        for each in began:
            log.warning("A check found %s: %s", each.signature, each.evidence.text)
        for each in ended:
            log.info("A check finds no more %s: %s", each.signature, each.evidence.text)
        if began or ended:
            now = time.time()
            # A warning is kept with the time until which it stood, a fault with the time at which it began.
            over = [replace(each, evidence=replace(each.evidence, at=now)) for each in ended if not each.convicts]
            self._store.add([*began, *over])
            self._store.keep_standing(self.runner.standing)
        self._publish()

    def _judge(self) -> Verdict:
        return verdict_of(self.host, self.kernel, self.runner, self._settled, self.config.agent.verdict_valid_s)

    def _publish(self) -> None:
        before, self.verdict = self.verdict, self._judge()
        if (before.state, places(before)) != (self.verdict.state, places(self.verdict)):
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
