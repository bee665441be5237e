"""Runs the checks of this node, each probe on its own schedule, and knows what they say."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from wheeltapper.checks.model import Context, Host
from wheeltapper.checks.outcome import Outcome
from wheeltapper.checks.registry import Chosen
from wheeltapper.evidence import Finding
from wheeltapper.tasks import end
from wheeltapper_hooks.agent.probing import ProbeRun
from wheeltapper_hooks.agent.standing import place
from wheeltapper_hooks.agent.tally import Tally

JITTER = 0.1
"""Each pause is up to a tenth shorter or longer, so that the nodes of a cluster do not ask a file server together."""

SPREAD_S = 0.25
"""The children of the first round start within this long: forty at once would be felt by a job."""

HURRIED_S = 5.0
"""Between two readings of one probe, however many jobs end."""

Changed = Callable[[Sequence[Finding], Sequence[Finding]], None]
"""Told which findings began and which ended; also with neither, when only what can be read has changed."""


class Runner:
    """The checks of one node. *changed* is called in the event loop, after each look that changed something."""

    def __init__(
        self, chosen: Sequence[Chosen], host: Host, changed: Changed, is_idle: Callable[[], bool] = lambda: True
    ) -> None:
        self.tally = Tally()
        self._changed = changed
        self._is_idle = is_idle
        self._renewed = asyncio.Event()
        self._all_tried = asyncio.Event()
        self._runs = self._made(chosen, host)
        self._untried = {id(run) for run in self._runs if Context.PERIODIC in run.contexts}
        if not self._untried:
            self._all_tried.set()

    def restore(self, standing: Iterable[Finding]) -> None:
        """Take over the findings that stood when the agent ended."""
        by_check: dict[str, list[Finding]] = {}
        for each in standing:
            by_check.setdefault(each.signature.removeprefix("check."), []).append(each)
        for run in self._runs:
            run.restore(by_check)

    def use(self, chosen: Sequence[Chosen], host: Host) -> None:
        """Go on with other checks, limits or expectations; findings of checks that are gone are over."""
        before = {run.probe.name: run for run in self._runs}
        left = self.standing
        self._runs = self._made(chosen, host)
        for run in self._runs:
            if run.probe.name in before:
                run.follow(before[run.probe.name])
        self._renewed.set()
        now = set(map(place, self.standing))
        self._changed((), [each for each in left if place(each) not in now])

    @property
    def standing(self) -> tuple[Finding, ...]:
        """The findings that stand, in the order of the checks' names."""
        found = {name: each for run in self._runs for name, each in run.standing.items()}
        return tuple(each for name in sorted(found) for each in found[name])

    @property
    def blind(self) -> tuple[str, ...]:
        """Why checks that may convict cannot look, a sentence for each probe."""
        return tuple(filter(None, (run.blindness() for run in self._runs)))

    def outcomes(self) -> tuple[Outcome, ...]:
        """Return what each check says now, in the order of their names."""
        said = [run.outcome(each) for run in self._runs for each in run.judges]
        return tuple(sorted(said, key=lambda each: each.check))

    async def run_for_ever(self) -> None:
        """Read every probe on its schedule; raises what is wrong in us, and may then be called again."""
        while True:
            self._renewed.clear()
            renewed = asyncio.create_task(self._renewed.wait())
            tasks: set[asyncio.Task[Any]] = {renewed}
            for each in self._runs:
                if Context.PERIODIC in each.contexts:
                    tasks.add(asyncio.create_task(self._repeat(each)))
                elif each.asked_after_jobs:
                    tasks.add(asyncio.create_task(self._follow_jobs(each)))
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await end(tasks)
            for task in done - {renewed}:
                task.result()

    async def first_round(self, within: float) -> None:
        """Wait, *within* seconds at most, until :meth:`run_for_ever` has tried every probe once."""
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._all_tried.wait(), within)

    async def freshen(self, within: float, context: Context, *, quick: bool = True) -> None:
        """Read again what is older than its period and asked in *context*, for *within* seconds at most.

        When *quick*, only what cannot hang is read: the rest is as fresh as its schedule keeps it.
        """
        stale = [each for each in self._runs if context in each.contexts and not (quick and each.probe.may_hang)]
        tasks = {asyncio.create_task(self._look(each, each.probe.every_s)): each for each in stale}
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=within)
            for task in late:
                tasks[task].give_up(within)
            await end(late)

    def job_ended(self) -> None:
        """Have read soon what is asked after a job, unless it was a moment ago: short jobs end all the time."""
        for run in self._runs:
            if run.asked_after_jobs:
                run.hurry.set()

    def _made(self, chosen: Sequence[Chosen], host: Host) -> list[ProbeRun]:
        sharing: dict[int, list[Chosen]] = {}
        for each in chosen:
            sharing.setdefault(id(each.check.probe), []).append(each)
        return [ProbeRun(judges, host, self.tally, self._is_idle) for judges in sharing.values()]

    async def _repeat(self, run: ProbeRun) -> None:
        probe = run.probe
        if probe.may_hang:
            await asyncio.sleep(random.uniform(0.0, SPREAD_S))  # noqa: S311 - jitter, not a secret
        due = time.monotonic()
        while True:
            if time.monotonic() - due > probe.every_s / 2:
                self.tally.count(probe.name, "late")
            # Half a period: what a hook has just had read need not be read again.
            max_age_s = HURRIED_S if run.hurry.is_set() else probe.every_s / 2
            run.hurry.clear()  # before the look: a job that ends during it is owed another
            await self._look(run, max_age_s)
            self._untried.discard(id(run))
            if not self._untried:
                self._all_tried.set()
            pause = probe.every_s * random.uniform(1 - JITTER, 1 + JITTER)  # noqa: S311 - likewise
            due = time.monotonic() + pause
            await _set_within(run.hurry, pause)

    async def _follow_jobs(self, run: ProbeRun) -> None:
        while True:
            await run.hurry.wait()
            run.hurry.clear()
            await self._look(run, 0.0)
            await asyncio.sleep(HURRIED_S)

    async def _look(self, run: ProbeRun, max_age_s: float) -> None:
        blind = run.blindness()
        changes = await run.freshen(max_age_s)
        began = [each for change in changes for each in change.began]
        ended = [each for change in changes for each in change.ended]
        if began or ended or run.blindness() != blind:
            self._changed(began, ended)


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    # Not wait_for: before Python 3.12 it may lose a cancellation.
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({waiting}, timeout=seconds)
    finally:
        waiting.cancel()
