"""The preflight for people: what every check says, from the agent or, where none runs, by looking once ourselves."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from wheeltapper import catalogue, codec
from wheeltapper.checks.model import Context
from wheeltapper.checks.outcome import Outcome, of_gpus
from wheeltapper.checks.registry import choose
from wheeltapper.config import Config
from wheeltapper.verdict import Verdict
from wheeltapper_hooks.agent.asking import ask_agent
from wheeltapper_hooks.agent.boot import host_of, read_boot_id
from wheeltapper_hooks.agent.kernel_watch import KernelWatch
from wheeltapper_hooks.agent.runner import Runner
from wheeltapper_hooks.agent.view import for_gpus, outcomes_of, verdict_of
from wheeltapper_hooks.agent.watch import Watch

LOOK_S = 10.0
"""For all checks together, which are read at the same time; the longest deadline of one is about half of it."""


@dataclass(frozen=True, slots=True)
class Preflight:
    """A node's verdict with what each check says. ``asked`` says who looked: the agent, or this very process."""

    verdict: Verdict
    sentence: str
    checks: tuple[Outcome, ...]
    asked: str


async def from_watch(watch: Watch, gpus: Sequence[str]) -> Preflight:
    """Return what the agent's own *watch* says, after a look at what is older than its period."""
    await watch.runner.freshen(LOOK_S, Context.PREFLIGHT, quick=False)
    verdict = for_gpus(watch.look(), gpus)
    return Preflight(verdict, str(verdict), _narrowed(watch.outcomes(), gpus), "agent")


def preflight(settings: Config, gpus: Sequence[str]) -> Preflight:
    """Return the preflight of this node for a job on *gpus* (PCI addresses; none: all of them).

    Raises:
        WheeltapperError: the configuration of a check or the catalogue is wrong.
        OSError: neither an agent answers nor does /proc say which boot this is.
    """
    with contextlib.suppress(OSError, ValueError):
        return codec.load(Preflight, ask_agent(settings.agent.run_dir, "preflight", GPUS=",".join(gpus)))
    return asyncio.run(_look_once(settings, gpus))


async def _look_once(settings: Config, gpus: Sequence[str]) -> Preflight:
    node = settings.node.name or socket.gethostname().partition(".")[0]
    host = host_of(settings, node, read_boot_id(settings.agent.procfs))
    runner = Runner(choose(settings.checks), host, lambda _began, _ended: None)
    signatures = catalogue.load(settings.diagnosis.catalogue_dirs)
    kernel = KernelWatch(settings.agent.kmsg, host.node, host.boot_id, signatures, lambda _findings, _cursor: None)
    await runner.freshen(LOOK_S, Context.PREFLIGHT, quick=False)
    while kernel.look():
        pass
    verdict = for_gpus(verdict_of(host, kernel, runner, frozenset(), settings.agent.verdict_valid_s), gpus)
    kernel.close()
    return Preflight(verdict, str(verdict), _narrowed(outcomes_of(kernel, runner, frozenset()), gpus), "this process")


def _narrowed(outcomes: Sequence[Outcome], gpus: Sequence[str]) -> tuple[Outcome, ...]:
    return tuple(of_gpus(each, gpus) for each in outcomes) if gpus else tuple(outcomes)
