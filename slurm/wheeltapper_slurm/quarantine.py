"""Leave to go out of service, and the way back: who may, and the one call that does it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from wheeltapper.config import Mode, PolicySection
from wheeltapper.evidence import Finding
from wheeltapper.ledger.model import Outcome, Quarantine
from wheeltapper.ledger.store import Ledger
from wheeltapper.policy import release
from wheeltapper.policy.budget import Standing, refused
from wheeltapper.policy.reason import PREFIX, TO_DO, format_reason, parse_reason
from wheeltapper.wire import Answer, Leave
from wheeltapper_slurm import domains
from wheeltapper_slurm.client import SlurmClient
from wheeltapper_slurm.lasting import Kind, Lasting
from wheeltapper_slurm.records import NodeRecord

log = logging.getLogger(__name__)

SLURMS_OWN = frozenset({"Epilog error", "Prolog error"})
"""What slurmctld itself writes when a hook of ours fails and nobody could tell it why (its ``drain_nodes`` calls)."""

AFTER_S = 0.001
"""What happens to a node is recorded at least so long after what happened to it before; a clock may be set back."""


class Gate:
    """Takes nodes out and back, one at a time: two never pass the budget at once, and the record is in order."""

    def __init__(
        self,
        client: SlurmClient,
        ledger: Ledger,
        policy: PolicySection,
        lasting: Lasting | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """*lasting* keeps in mind what was done, where slurmctld may be killed and forget it.

        *clock* gives Unix seconds.
        """
        self._client = client
        self._lasting = lasting
        self._clock = clock
        self._ledger = ledger
        self._policy = policy
        self._turn = asyncio.Lock()

    async def ask(self, leave: Leave) -> Answer:
        """Return whether the node is out of service now.

        Raises:
            SchedulerError: slurmctld refused or did not answer; nothing was changed.
        """
        async with self._turn:
            answer = await self._ask(leave, self._now(leave.node))
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
        history = self._ledger.quarantines(node=leave.node)
        if node.drained:
            return await self._out_already(leave, convicting, node, history, now)
        if release.standing(history) and self._lasting and await self._lasting.forgot(Kind.DRAIN, leave.node):
            return Answer(out=True, reason=f"drained again: {await self._drain_again(history)}")
        # The node is not drained now. What we once drained it for and somebody undid is settled: people are respected.
        fresh = [finding for finding in convicting if finding.key not in release.settled(history)]
        if not fresh:
            return Answer(released=True, reason="a person put it back after it was taken out on this evidence")
        reason = self._reason(fresh, leave.job, now, 1 + release.times_out(history, now, self._policy))
        blocked = refused(await self._standing(node), self._policy.budget)
        if blocked:
            self._record(leave, fresh[0], now, Outcome.FAILED, blocked)
            return Answer(reason=f"the budget forbids it: {blocked}")
        await self._drain(leave.node, reason)
        self._ledger.record_quarantine(_taken_out(leave, fresh, reason, now))
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

    async def _standing(self, node: NodeRecord) -> Standing:
        members = domains.of(self._policy.budget.domains) or await self._client.topology()
        return domains.standing(node, await self._client.nodes(), members)

    async def _out_already(
        self, leave: Leave, findings: Sequence[Finding], node: NodeRecord, history: Sequence[Quarantine], now: float
    ) -> Answer:
        """The node is out: of what we know of it by now, write down what its release must wait for."""
        answer = Answer(out=True, reason=f"it is out already: {node.reason}")
        last = next(iter(release.standing(history)), None)
        if last is not None and node.reason in SLURMS_OWN:
            return Answer(
                out=True, reason=f"it is out already, and now with its reason: {await self._drain_again(history)}"
            )
        if last is not None and last.reason == node.reason:
            if not release.stricter(release.strictest(findings), last.disposition):
                return answer
            graver = [each for each in findings if release.stricter(each.disposition, last.disposition)]
            reason = self._reason(graver, leave.job, now, release.times_out(history, now, self._policy))
            await self._drain(leave.node, reason)
            self._ledger.record_quarantine(_taken_out(leave, graver, reason, now, first=False))
            return Answer(out=True, reason=f"it is out already, and now for more: {reason}")
        more = self._more(findings, 1 + release.times_out(history, now, self._policy))
        if findings[0].key not in {past.key for past in history} and _wrote(node.reason, findings[0], more):
            # It took itself out while we were away, or we died in the middle. From now on it is ours to look after.
            reason = node.reason if node.reason.endswith(more) else node.reason + more
            if node.reason in SLURMS_OWN:
                reason = format_reason(findings[0], leave.job, now, more)
            if reason != node.reason:
                await self._drain(leave.node, reason)
            else:
                self._note(
                    Kind.DRAIN, leave.node
                )  # what the node has told slurmctld can be forgotten like our own word
            self._ledger.record_quarantine(_taken_out(leave, findings, reason, now, note="it was out already"))
        return answer

    def _reason(self, findings: Sequence[Finding], job: str | None, now: float, times: int) -> str:
        """Return the reason for *findings*, the first of which names the fault; the rest may ask for more."""
        return format_reason(findings[0], job, now, self._more(findings, times))

    def _more(self, findings: Sequence[Finding], times: int) -> str:
        strictest = release.strictest(findings)
        then = f", then {TO_DO[strictest]}" if release.stricter(strictest, findings[0].disposition) else ""
        return then + release.repeats(times, self._policy)

    async def release(self, out: Quarantine) -> str | None:
        """Put back the node that is *out*, and return None; or return why it is not ours to put back.

        Raises:
            SchedulerError: slurmctld refused or did not answer; nothing was changed.
        """
        async with self._turn:
            node = await self._client.node(out.node)
            if node is None or not node.drained or node.reason != out.reason:
                return "a person has changed its state or its reason"
            self._note(Kind.RESUME, out.node)
            await self._client.resume(out.node)
            self._record_back(out, Outcome.RELEASED, "its checks pass again")
        return None

    async def settle(self, out: Quarantine) -> bool:
        """Record that a person has put back the node that was *out*; False when it is out, for this or by now for more.

        Raises:
            SchedulerError: slurmctld did not answer; nothing was recorded.
        """
        async with self._turn:
            node = await self._client.node(out.node)
            if node is None or node.drained or release.standing(self._ledger.quarantines(node=out.node)) != [out]:
                return False
            self._record_back(out, Outcome.UNDONE, "a person put it back")
        return True

    async def again(self, name: str) -> None:
        """Do once more what slurmctld has forgotten of how the node *name* was taken out, or put back.

        Raises:
            SchedulerError: slurmctld refused or did not answer; nothing was changed.
        """
        async with self._turn:
            node = await self._client.node(name)
            history = [past for past in self._ledger.quarantines(node=name) if past.outcome in release.HAPPENED]
            if node is None or not history:
                return
            last = history[-1]
            if last.outcome is Outcome.DONE and (not node.drained or node.reason in SLURMS_OWN):
                await self._drain_again(history)
            elif last.outcome is Outcome.RELEASED and node.drained and node.reason == last.reason:
                log.warning("slurmctld was started again and has forgotten that %s was put back; it is again", name)
                self._note(Kind.RESUME, name)
                await self._client.resume(name)

    async def _drain_again(self, history: Sequence[Quarantine]) -> str:
        last = release.standing(history)[0]
        log.warning("slurmctld has lost why %s is out, or that it is; it is drained again: %s", last.node, last.reason)
        await self._drain(last.node, last.reason)
        return last.reason

    async def _drain(self, node: str, reason: str) -> None:
        self._note(Kind.DRAIN, node)
        await self._client.drain(node, reason)

    def _note(self, kind: Kind, node: str) -> None:
        if self._lasting is not None:
            self._lasting.note(kind, node)

    def _now(self, node: str) -> float:
        """Return when what is done next to *node* happens: the order of its history is the order of its times."""
        return max([self._clock(), *(past.at + AFTER_S for past in self._ledger.quarantines(node=node))])

    def _record_back(self, out: Quarantine, outcome: Outcome, note: str) -> None:
        self._ledger.record_quarantine(replace(out, at=self._now(out.node), outcome=outcome, note=note))

    def _record(self, leave: Leave, finding: Finding, now: float, outcome: Outcome, note: str) -> None:
        # A health check asks every few minutes; what did not happen is told once per finding.
        known = {(past.key, past.outcome) for past in self._ledger.quarantines(node=leave.node)}
        if (finding.key, outcome) not in known:
            reason = format_reason(finding, leave.job, now)
            self._ledger.record_quarantine(
                replace(_taken_out(leave, [finding], reason, now), outcome=outcome, note=note)
            )


def _taken_out(
    leave: Leave, findings: Sequence[Finding], reason: str, now: float, *, note: str = "", first: bool = True
) -> Quarantine:
    named = findings[0]
    return Quarantine(
        node=leave.node,
        key=named.key,
        label=named.label,
        detail=named.detail,
        reason=reason,
        job=leave.job,
        at=now,
        outcome=Outcome.DONE,
        note=note,
        disposition=release.strictest(findings),
        boot_id=leave.boot_id,
        first=first,
    )


def _wrote(reason: str, finding: Finding, more: str) -> bool:
    """True when *reason* is what a node's own agent, or we, write on *finding*, and no person has added to it."""
    if reason in SLURMS_OWN:
        return True
    said = parse_reason(reason)
    to_do = TO_DO[finding.disposition]
    return (
        said is not None
        and (said.label, said.detail, said.gpu) == (finding.label, finding.detail, finding.evidence.gpu)
        and said.to_do in {to_do, to_do + more}
    )
