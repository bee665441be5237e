"""What the agent answers to a pod that was placed on its node: the verdict on the very GPUs that the pod was given."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

from wheeltapper.config import Config, Mode
from wheeltapper.evidence import Finding
from wheeltapper.verdict import State, Verdict
from wheeltapper_hooks.agent import pod_resources
from wheeltapper_hooks.agent.pod_gpus import addresses, read_gpus
from wheeltapper_hooks.agent.pod_resources import KubeletTrouble
from wheeltapper_hooks.agent.pod_tokens import Asker, NotAPod
from wheeltapper_hooks.agent.watch import Watch

log = logging.getLogger(__name__)

FINDINGS_MAX = 5
TEXT_MAX = 300
"""Findings of an answer, and characters of a line: together they fit into a termination message of 4 KB."""


class Tokens(Protocol):
    """Says whose a token is."""

    async def asker(self, token: str) -> Asker:
        """Return the pod that *token* was made for."""
        ...


class Passes:
    """Passes of late, by the devices that they were for. Whatever the kernel says meanwhile counts all the same."""

    def __init__(self) -> None:
        self._until: dict[frozenset[str], float] = {}

    def holds(self, devices: frozenset[str], now: float) -> bool:
        """Return whether *devices* have passed lately; *now* is a monotonic clock's."""
        self._until = {each: until for each, until in self._until.items() if until > now}
        return devices in self._until

    def add(self, devices: frozenset[str], until: float) -> None:
        """Remember a pass."""
        self._until[devices] = until


class PodPreflight:
    """Answers to pods. *freshen* renews what the node's quick probes have read."""

    def __init__(self, watch: Watch, tokens: Tokens, freshen: Callable[[], Awaitable[None]]) -> None:
        self._watch = watch
        self._tokens = tokens
        self._freshen = freshen
        self._passes = Passes()

    async def answer(self, token: str) -> dict[str, Any]:
        """Return the report for the pod that *token* belongs to, as plain JSON values.

        Raises:
            NotAPod: no pod of this node has such a token. OSError: it cannot be found out whose it is.
        """
        asker = await self._tokens.asker(token)
        if asker.node not in {"", self._watch.node}:
            raise NotAPod(f"{asker} runs on {asker.node}, and this is {self._watch.node}")
        config = self._watch.config
        gpus, trouble = await self._gpus(asker, config)
        cached = bool(gpus.ids) and self._passes.holds(gpus.ids, time.monotonic())
        if not cached:
            await self._freshen()
        verdict = moded(concerning(self._watch.look(), gpus.addresses), config.policy.mode)
        if verdict.state is State.OK and gpus.ids and not cached:
            self._passes.add(gpus.ids, time.monotonic() + config.kubernetes.preflight.pass_valid_s)
        log.log(
            logging.WARNING if verdict.state is State.FAIL else logging.INFO,
            "Pod %s %s: %s.%s",
            asker,
            "is kept off" if verdict.state is State.FAIL else "may start",
            verdict,
            trouble,
        )
        return report(verdict, gpus, cached=cached)

    async def _gpus(self, asker: Asker, config: Config) -> tuple[Gpus, str]:
        """Return the GPUs of *asker*, and what stood in the way of knowing them."""
        section = config.kubernetes.preflight
        try:
            devices = await pod_resources.devices_of(section.pod_resources, asker.namespace, asker.name)
        except KubeletTrouble as error:
            return Gpus(), f" Its GPUs are not known, so the whole node's verdict counts: {error}."
        if devices is None:
            raise NotAPod(f"the kubelet of {self._watch.node} knows no pod {asker}")
        ids = frozenset(each.id for each in devices if section.is_gpu(each.resource))
        return Gpus(ids, addresses(ids, read_gpus(config.agent.procfs))), ""


@dataclass(frozen=True, slots=True)
class Gpus:
    """A pod's GPUs: the kubelet's names for them, and their PCI addresses; None where those are not known."""

    ids: frozenset[str] = frozenset()
    addresses: frozenset[str] | None = None


def concerning(verdict: Verdict, gpus: frozenset[str] | None) -> Verdict:
    """Return *verdict* as far as it concerns *gpus* (PCI addresses): faults of other GPUs do not.

    A fault that belongs to no GPU is the whole node's; with None for *gpus* every fault counts.
    """
    if verdict.state is not State.FAIL or gpus is None:
        return verdict
    mine = tuple(each for each in verdict.findings if each.evidence.gpu is None or each.evidence.gpu in gpus)
    if mine:
        return replace(verdict, findings=mine)
    return replace(verdict, state=State.WARN, findings=(), note="another GPU of it is broken, and none of this pod's")


def moded(verdict: Verdict, mode: Mode) -> Verdict:
    """Return *verdict* as *mode* lets it be told: only in mode full is there somebody who moves what we keep off."""
    if verdict.state is not State.FAIL or mode is Mode.FULL:
        return verdict
    return replace(verdict, state=State.WARN)


def report(verdict: Verdict, gpus: Gpus, *, cached: bool) -> dict[str, Any]:
    """Return the answer to the pod."""
    return {
        "state": verdict.state.value,
        "sentence": str(verdict)[:1024],
        "node": verdict.node,
        "gpus": sorted(gpus.addresses or gpus.ids),
        "cached": cached,
        "findings": [_brief(each) for each in verdict.findings[:FINDINGS_MAX]],
    }


def _brief(finding: Finding) -> dict[str, Any]:
    seen = finding.evidence
    return {
        "label": finding.label,
        "detail": finding.detail,
        "disposition": finding.disposition.value,
        "gpu": seen.gpu,
        "at": seen.at,
        "text": seen.text[:TEXT_MAX],
    }
