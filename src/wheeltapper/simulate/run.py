"""The replay: one job that wants to run for as long as the trace lasts, event by event."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from wheeltapper.config import PolicySection
from wheeltapper.simulate.model import Outcome, Settings, Strategy
from wheeltapper.simulate.place import Cluster
from wheeltapper.simulate.policy import Desk, decided_after
from wheeltapper.simulate.trace import Fault, Trace


@dataclass(slots=True)
class _Clock:
    """The virtual time, and where it went."""

    span: float
    now: float = 0.0
    parts: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    def spend(self, part: str, until: float) -> None:
        until = min(until, self.span)
        self.parts[part] += until - self.now
        self.now = until

    @property
    def over(self) -> bool:
        return self.now >= self.span


def replay(trace: Trace, strategy: Strategy, settings: Settings, policy: PolicySection, seed: int) -> Outcome:
    """Return how a job fares on *trace*. The same arguments give the same outcome."""
    return _Replay(trace, strategy, settings, policy, seed).run()


class _Replay:
    def __init__(self, trace: Trace, strategy: Strategy, settings: Settings, policy: PolicySection, seed: int) -> None:
        self._cluster = Cluster(trace, seed)
        self._nodes = frozenset(trace.nodes)
        self._strategy = strategy
        self._settings = settings
        self._policy = policy
        self._desk = Desk(policy, len(trace.nodes), settings.most_excluded)
        self._clock = _Clock(trace.span)
        self._interruptions = 0
        self._lost: dict[str, float] = defaultdict(float)
        self._heard_until = 0.0

    def run(self) -> Outcome:
        while not self._clock.over:
            self._hear_nodes()
            now = self._clock.now
            avoided = self._desk.avoided(now)
            chosen = self._cluster.choose(self._fit(), self._settings.job_nodes, self._strategy.placing, now, avoided)
            if chosen is None:
                self._clock.spend("waiting", max(self._cluster.next_repair(self._clock.now), self._clock.now + 60.0))
                continue
            self._attempt(chosen)
        parts, desk = self._clock.parts, self._desk
        return Outcome(
            span=self._clock.span,
            productive=parts["productive"],
            lost=parts["lost"],
            writing=parts["writing"],
            noticing=parts["noticing"],
            restarting=parts["restarting"],
            waiting=parts["waiting"],
            interruptions=self._interruptions,
            lost_by_label=dict(sorted(self._lost.items())),
            quarantined=desk.quarantined,
            blocked=desk.blocked,
            stopped_for_a_person=desk.stopped,
            most_out=desk.most_out,
        )

    def _fit(self) -> set[str]:
        """Return the nodes that the job may be given: fit as far as is known, not out, not excluded."""
        now = self._clock.now
        fit = set(self._nodes)
        for node, fault in self._cluster.unfit(now).items():
            # What nobody has noticed yet looks fit; the job will fail there.
            if now - fault.start >= self._notices(fault) or self._strategy.decides:
                fit.discard(node)
        if self._strategy.decides:
            fit -= {node for node, until in self._desk.out_until.items() if until > now}
            excluded = self._desk.excluded(now)
            if len(fit - excluded) >= self._settings.job_nodes:
                fit -= excluded
        return fit

    def _notices(self, fault: Fault) -> float:
        return (
            decided_after(fault, self._settings, self._policy) if self._strategy.decides else self._strategy.notices_s
        )

    def _hear_nodes(self) -> None:
        if self._strategy.decides:
            for fault in self._cluster.begun(self._heard_until, self._clock.now):
                self._desk.proven(fault, self._clock.now)
        self._heard_until = self._clock.now

    def _attempt(self, nodes: frozenset[str]) -> None:
        began = self._clock.now
        ill = [fault for node, fault in self._cluster.unfit(began).items() if node in nodes]
        fault = self._cluster.next_fault(nodes, began, every=self._settings.every_entry_ends)
        if ill:
            fault = min(ill, key=lambda each: (each.start, each.node))
        ends = began + self._settings.restart_s if ill else fault.start if fault is not None else self._clock.span
        self._clock.spend("restarting", min(ends, began + self._settings.restart_s))
        lost = self._work(min(ends, self._clock.span))
        if fault is None or self._clock.over:
            return
        self._interruptions += 1
        self._lost[fault.cause.label] += lost
        self._after(fault, nodes)

    def _work(self, ends: float) -> float:
        """Work until *ends* in cycles of an interval and a write; return what was lost. The trace's end loses none."""
        interval, write = self._settings.checkpoint_s, self._settings.write_s
        ran = ends - self._clock.now
        cycles = int(ran // (interval + write))
        rest = ran - cycles * (interval + write)
        began = self._clock.now
        self._clock.spend("productive", began + cycles * interval)
        self._clock.spend("writing", self._clock.now + cycles * write)
        self._clock.spend("productive" if ends >= self._clock.span else "lost", self._clock.now + rest)
        return 0.0 if ends >= self._clock.span else rest

    def _after(self, fault: Fault, nodes: frozenset[str]) -> None:
        now = self._clock.now
        if not self._strategy.decides:
            self._clock.spend("noticing", now + self._strategy.notices_s)
            return
        self._clock.spend("noticing", now + decided_after(fault, self._settings, self._policy))
        decision = self._desk.hear(fault, tuple(sorted(nodes)), self._clock.now)
        pause = decision.job.delay if decision.job.requeue else self._settings.person_s
        self._clock.spend("waiting", self._clock.now + pause)
