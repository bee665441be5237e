"""Hands each fault of the trace to the policy as the Slurm side would, and does in the virtual cluster what it says."""

from __future__ import annotations

from dataclasses import dataclass, field

from wheeltapper.attempt import Attempt, Ending
from wheeltapper.config import PolicySection
from wheeltapper.diagnosis.model import Diagnosis, Suspect
from wheeltapper.evidence import Evidence, Finding, Role
from wheeltapper.labels import label
from wheeltapper.policy import moving
from wheeltapper.policy.budget import Share, refusal
from wheeltapper.policy.decide import decide
from wheeltapper.policy.model import Decision, History, Payer
from wheeltapper.policy.order import last_failed_first
from wheeltapper.simulate.model import Settings
from wheeltapper.simulate.trace import Ends, Fault

SUSPECTED_S = 86_400.0
"""How long the Slurm side keeps a job off a node that was only suspected."""


def diagnosis_of(fault: Fault) -> Diagnosis:
    """Return what the product says of an end by *fault*: confirmed where the node itself proves it."""
    cause = fault.cause
    seen = Evidence(cause.source, f"the trace says {cause.label}", at=fault.start, node=fault.node)
    finding = Finding("trace", label(cause.label), Role.ROOT, cause.disposition, seen)
    return Diagnosis(
        label=finding.label,
        disposition=cause.disposition,
        confidence=0.9,
        confirmed=finding.convicts,
        chain=(finding,),
        suspects=(Suspect(fault.node, reason="the trace"),),
        sentence="the trace says so.",
    )


def decided_after(fault: Fault, settings: Settings, policy: PolicySection) -> float:
    """Return how many seconds after *fault* the job has ended and is decided on.

    A job that waits for its watchdog is moved before, where the node itself proves the fault: after the grace of
    *policy* it ends as if its process had died.
    """
    usual = settings.ends_s[fault.cause.ends]
    if fault.cause.ends is not Ends.WATCHDOG or not policy.move_after_s or not moving.faults(diagnosis_of(fault).chain):
        return usual
    moved = settings.sees_s[fault.cause.source] + policy.move_after_s + settings.ends_s[Ends.AT_ONCE]
    return min(usual, moved)


@dataclass(slots=True)
class Desk:
    """The policy at work on one job: its retries, its exclusions, and the nodes that were taken out.

    ``failed`` holds when each node came back last from a fault that the product has heard of: it ended the job, or the
    node itself proved it.
    """

    policy: PolicySection
    nodes: int
    most_excluded: int
    excluded_until: dict[str, float] = field(default_factory=dict)
    out_until: dict[str, float] = field(default_factory=dict)
    failed: dict[str, float] = field(default_factory=dict)
    quarantined: int = 0
    blocked: int = 0
    stopped: int = 0
    most_out: int = 0
    _paid: list[tuple[float, Payer]] = field(default_factory=list)

    def hear(self, fault: Fault, nodes: tuple[str, ...], now: float) -> Decision:
        """Decide on the attempt on *nodes* that *fault* ended, take out what may be, and remember who pays."""
        down = fault.cause.ends is Ends.NODE_DOWN
        attempt = Attempt(
            key=f"1@{now:.0f}",
            job="1",
            nodes=nodes,
            ending=Ending.NODE_FAIL if down else Ending.FAILED,
            failed_node=fault.node if down else None,
            end=now,
        )
        diagnosis = diagnosis_of(fault)
        decision = decide(diagnosis, attempt, self._history(now), self.policy, now, self.avoided(now))
        self.failed[fault.node] = fault.end
        for action in decision.quarantine:
            self._take_out(action.node, fault, now)
        if decision.job.requeue:
            self._paid.append((now, decision.job.payer))
            # The guilty one is excluded until it is back, one that is suspected for a day.
            until = fault.end if diagnosis.confirmed else now + SUSPECTED_S
            self.excluded_until |= dict.fromkeys(decision.job.exclude, until)
        else:
            # A person looks and submits it anew: a new job with all its retries and no exclusions.
            self.stopped += 1
            self._paid = []
            self.excluded_until = {}
        return decision

    def proven(self, fault: Fault, now: float) -> None:
        """Hear of a fault that ended no job: take the node out where the node itself proves it."""
        if diagnosis_of(fault).confirmed:
            self.failed[fault.node] = max(fault.end, self.failed.get(fault.node, 0.0))
            if fault.end > now:
                self._take_out(fault.node, fault, now)

    def excluded(self, now: float) -> set[str]:
        """Return the nodes that the job excludes at *now*."""
        return {node for node, until in self.excluded_until.items() if until > now}

    def avoided(self, now: float) -> list[str]:
        """Return the nodes that a large job does without at *now*, the last that failed first.

        When a node that is out will be back is not known, so all of those fail now.
        """
        known = {node: min(at, now) for node, at in self.failed.items()}
        return last_failed_first(known, self.most_excluded)

    def _history(self, now: float) -> History:
        since = now - self.policy.infrastructure_retry_h * 3600
        paid = [payer for at, payer in self._paid if payer is not Payer.INFRASTRUCTURE or at >= since]
        return History(paid.count(Payer.USER), paid.count(Payer.INFRASTRUCTURE), paid.count(Payer.BLIND))

    def _take_out(self, node: str, fault: Fault, now: float) -> None:
        self.out_until = {name: until for name, until in self.out_until.items() if until > now}
        if node in self.out_until:
            return
        if refusal({"all": Share(self.nodes, len(self.out_until))}, self.policy.budget) is not None:
            self.blocked += 1
            return
        self.out_until[node] = fault.end
        self.quarantined += 1
        self.most_out = max(self.most_out, len(self.out_until))
