"""All strategies on one trace, over several seeds and costs of a checkpoint, beside what the closed form expects."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from wheeltapper.config import PolicySection
from wheeltapper.simulate.model import STRATEGIES, Outcome, Settings, Strategy
from wheeltapper.simulate.policy import decided_after
from wheeltapper.simulate.run import replay
from wheeltapper.simulate.trace import Trace
from wheeltapper.statistics import lemons
from wheeltapper.statistics.badput import closed_form

REPAIR_DAYS = (1.0, 7.0, 30.0)
"""How soon after a repair a node fails again is told for these."""

LEARNING_S = 30 * lemons.DAY_S
"""Repeat offenders are judged from then on: before, nothing is known of anybody."""


@dataclass(frozen=True, slots=True)
class Line:
    """One strategy at one cost of a checkpoint: means over the seeds, and the lowest and highest ETTR of them."""

    strategy: str
    write_s: float
    ettr: float
    ettr_low: float
    ettr_high: float
    interruptions: float
    lost_hours: float
    noticing_hours: float
    waiting_hours: float
    writing_hours: float
    stopped_for_a_person: float
    quarantined: float
    blocked: float
    most_out: int
    lost_hours_by_label: Mapping[str, float]

    @property
    def idle_hours(self) -> float:
        """Hours without progress."""
        return self.lost_hours + self.noticing_hours + self.waiting_hours + self.writing_hours


@dataclass(frozen=True, slots=True)
class Comparison:
    """What a replay tells. ``closed_form`` is the expected ETTR by cost of a checkpoint for nodes that fail at random.

    ``every_entry`` holds all strategies at the first cost again, with those faults ending the job too that would have
    spared it: the least that can be read out of a trace that does not say what its entries did to jobs.
    """

    lines: tuple[Line, ...]
    closed_form: Mapping[float, float]
    every_entry: tuple[Line, ...]
    foresight: lemons.Foresight
    after_repair: tuple[lemons.AfterRepair, ...]


def compare(
    trace: Trace,
    settings: Settings,
    policy: PolicySection,
    seeds: Sequence[int],
    writes_s: Sequence[float],
    progress: Callable[[str], None] = lambda _: None,
) -> Comparison:
    """Replay every strategy at every cost of a checkpoint in *writes_s* with every one of *seeds*."""
    lines = []
    for write_s in writes_s:
        for strategy in STRATEGIES:
            progress(f"{strategy.name}, {write_s:g} s a checkpoint")
            lines.append(_line(trace, strategy, replace(settings, write_s=write_s), policy, seeds))
    worst = replace(settings, write_s=writes_s[0], every_entry_ends=True)
    every_entry = []
    for strategy in STRATEGIES:
        progress(f"{strategy.name}, and every entry ends the job")
        every_entry.append(_line(trace, strategy, worst, policy, seeds))
    known = [lemons.Fault(fault.node, fault.start, fault.end) for fault in trace.faults]
    nodes = len(trace.nodes)
    return Comparison(
        tuple(lines),
        {write_s: expected(trace, replace(settings, write_s=write_s), policy) for write_s in writes_s},
        tuple(every_entry),
        lemons.foresight(known, nodes, min(LEARNING_S, trace.span), trace.span),
        tuple(lemons.after_repair(known, nodes, 0.0, trace.span, REPAIR_DAYS)),
    )


def expected(trace: Trace, settings: Settings, policy: PolicySection) -> float:
    """Return the ETTR of the closed form for a job on nodes that fail at the trace's mean rate."""
    ending = [fault for fault in trace.faults if settings.every_entry_ends or not fault.spares_jobs]
    per_second = len(ending) / (len(trace.nodes) * trace.span)
    ends = [decided_after(fault, settings, policy) for fault in ending]
    return closed_form(
        1 / (per_second * settings.job_nodes),
        settings.checkpoint_s,
        settings.write_s,
        settings.restart_s,
        sum(ends) / len(ends),
    )


def _line(trace: Trace, strategy: Strategy, settings: Settings, policy: PolicySection, seeds: Sequence[int]) -> Line:
    runs = [replay(trace, strategy, settings, policy, seed) for seed in seeds]
    ettr = [run.ettr for run in runs]

    def mean(of: Callable[[Outcome], float]) -> float:
        return sum(of(run) for run in runs) / len(runs)

    lost: dict[str, float] = defaultdict(float)
    for run in runs:
        for label, seconds in run.lost_by_label.items():
            lost[label] += seconds / 3600 / len(runs)
    return Line(
        strategy=strategy.name,
        write_s=settings.write_s,
        ettr=sum(ettr) / len(ettr),
        ettr_low=min(ettr),
        ettr_high=max(ettr),
        interruptions=mean(lambda run: run.interruptions),
        lost_hours=mean(lambda run: run.lost) / 3600,
        noticing_hours=mean(lambda run: run.noticing) / 3600,
        waiting_hours=mean(lambda run: run.waiting + run.restarting) / 3600,
        writing_hours=mean(lambda run: run.writing) / 3600,
        stopped_for_a_person=mean(lambda run: run.stopped_for_a_person),
        quarantined=mean(lambda run: run.quarantined),
        blocked=mean(lambda run: run.blocked),
        most_out=max(run.most_out for run in runs),
        lost_hours_by_label=dict(sorted(lost.items(), key=lambda item: (-item[1], item[0]))),
    )
