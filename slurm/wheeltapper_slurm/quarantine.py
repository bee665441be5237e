"""Leave to go out of service: who may, and the one call that does it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable

from wheeltapper.config import Mode, PolicySection
from wheeltapper.evidence import Finding
from wheeltapper.ledger.model import Outcome, Quarantine
from wheeltapper.ledger.store import Ledger
from wheeltapper.policy.budget import Share, refusal
from wheeltapper.policy.reason import PREFIX, format_reason, is_ours
from wheeltapper.wire import Answer, Leave
from wheeltapper_slurm.client import SlurmClient
from wheeltapper_slurm.records import NodeRecord

log = logging.getLogger(__name__)


def shares(nodes: Iterable[NodeRecord], partitions: Iterable[str]) -> dict[str, Share]:
    """Return for each of *partitions* how many nodes it has and how many of them are out by our doing."""
    wanted = set(partitions)
    found: dict[str, Share] = {}
    for node in nodes:
        ours = node.drained and is_ours(node.reason)
        for name in wanted.intersection(node.partitions):
            share = found.get(name, Share(0, 0))
            found[name] = Share(share.size + 1, share.out + int(ours))
    return found


class Gate:
    """Answers nodes that ask for leave, one at a time, so that the budget cannot be passed by two at once."""

    def __init__(self, client: SlurmClient, ledger: Ledger, policy: PolicySection) -> None:
        self._client = client
        self._ledger = ledger
        self._policy = policy
        self._turn = asyncio.Lock()

    async def ask(self, leave: Leave, now: float) -> Answer:
        """Return whether the node is out of service now; *now* is in Unix seconds.

        Raises:
            SchedulerError: slurmctld refused or did not answer; nothing was changed.
        """
        async with self._turn:
            answer = await self._ask(leave, now)
        log.info("%s asks for leave at its %s: %s", leave.node, leave.context, answer.reason)
        return answer

    async def _ask(self, leave: Leave, now: float) -> Answer:
        convicting = [finding for finding in leave.findings if finding.convicts and finding.evidence.node == leave.node]
        if not convicting:
            return Answer(reason="no positive hardware evidence was given")
        if leave.context == "drill":
            return self._drill(leave, convicting[0], now)
        node = await self._client.node(leave.node)
        if node is None:
            return Answer(reason=f"slurmctld knows no node {leave.node}")
        if self._policy.mode is Mode.OBSERVE:
            if not node.drained:
                self._record(leave, convicting[0], now, Outcome.OBSERVED, "observe mode")
            return Answer(
                reason=f"observe mode; it would have been drained: {format_reason(convicting[0], leave.job, now)}"
            )
        if node.drained:
            return Answer(out=True, reason=f"it is out already: {node.reason}")
        fresh = self._not_released(leave.node, convicting)
        if not fresh:
            return Answer(released=True, reason="a person put it back after it was taken out on this evidence")
        reason = format_reason(fresh[0], leave.job, now)
        blocked = refusal(shares(await self._client.nodes(), node.partitions), self._policy.budget)
        if blocked:
            self._record(leave, fresh[0], now, Outcome.FAILED, blocked)
            return Answer(reason=f"the budget forbids it: {blocked}")
        await self._client.drain(leave.node, reason)
        self._record(leave, fresh[0], now, Outcome.DONE, "")
        return Answer(out=True, reason=f"drained: {reason}")

    def _drill(self, leave: Leave, finding: Finding, now: float) -> Answer:
        """Record what a real fault like *finding* would have asked for, and do nothing, whatever the mode is."""
        reason = format_reason(finding, leave.job, now)
        marked = f"wheeltapper drill: {reason.removeprefix(PREFIX)}"
        self._ledger.record_quarantine(
            Quarantine(
                leave.node,
                f"drill:{finding.key}",
                finding.label,
                finding.detail,
                marked,
                None,
                now,
                Outcome.OBSERVED,
                "a drill",
            )
        )
        return Answer(reason=f"a real one would ask to drain the node with {reason!r}", recorded=True)

    def _not_released(self, node: str, findings: list[Finding]) -> list[Finding]:
        # The node is not drained now. What we once drained it for and somebody undid is settled: people are respected.
        acted_on = {past.key for past in self._ledger.quarantines(node=node) if past.outcome is Outcome.DONE}
        return [finding for finding in findings if finding.key not in acted_on]

    def _record(self, leave: Leave, finding: Finding, now: float, outcome: Outcome, note: str) -> None:
        # A health check asks every few minutes; what did not happen is told once per finding.
        known = {(past.key, past.outcome) for past in self._ledger.quarantines(node=leave.node)}
        reason = format_reason(finding, leave.job, now)
        if (finding.key, outcome) not in known:
            self._ledger.record_quarantine(
                Quarantine(
                    leave.node, finding.key, finding.label, finding.detail, reason, leave.job, now, outcome, note
                )
            )
