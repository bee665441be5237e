"""Hands each fault of the trace to the policy as the Slurm side would, and does in the virtual cluster what it says."""

from __future__ import annotations

from dataclasses import dataclass, field

from wheeltapper.attempt import Attempt, Ending
from wheeltapper.config import PolicySection
from wheeltapper.diagnosis.model import Diagnosis, Suspect
from wheeltapper.evidence import Evidence, Finding, Role
from wheeltapper.labels import label
from wheeltapper.policy.budget import Share, refusal
from wheeltapper.policy.decide import decide
from wheeltapper.policy.model import Decision, History, Payer
from wheeltapper.simulate.trace import Ends, Fault


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


@dataclass(slots=True)
class Desk:
    """The policy at work on one job: its retries, its exclusions, and the nodes that were taken out."""

    policy: PolicySection
    nodes: int
    most_excluded: int
    excluded: set[str] = field(default_factory=set)
    out_until: dict[str, float] = field(default_factory=dict)
    quarantined: int = 0
    blocked: int = 0
    stopped: int = 0
    most_out: int = 0
    _history: dict[Payer, int] = field(default_factory=dict)

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
        history = History(
            user=self._history.get(Payer.USER, 0),
            infrastructure=self._history.get(Payer.INFRASTRUCTURE, 0),
            blind=self._history.get(Payer.BLIND, 0),
        )
        decision = decide(diagnosis_of(fault), attempt, history, self.policy, now)
        for action in decision.quarantine:
            self._take_out(action.node, fault, now)
        if decision.job.requeue:
            self._history[decision.job.payer] = self._history.get(decision.job.payer, 0) + 1
            if len(self.excluded | set(decision.job.exclude)) <= self.most_excluded:
                self.excluded |= set(decision.job.exclude)
        else:
            # A person looks and submits it anew: a new job with all its retries and no exclusions.
            self.stopped += 1
            self._history = {}
            self.excluded = set()
        return decision

    def idle_fault(self, fault: Fault, now: float) -> None:
        """Take out a node without a job on which a fault was found, where the node itself proves it."""
        if diagnosis_of(fault).confirmed:
            self._take_out(fault.node, fault, now)

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
