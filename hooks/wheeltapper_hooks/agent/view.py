"""What is said of the node, from the kernel log and the checks together: the verdict, and a line for each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from wheeltapper.checks.model import Host
from wheeltapper.checks.outcome import Outcome, concluded
from wheeltapper.verdict import State, Verdict
from wheeltapper_hooks.agent.judge import forgiven, judge
from wheeltapper_hooks.agent.kernel_watch import KernelWatch
from wheeltapper_hooks.agent.runner import Runner

KERNEL_LOG = "kernel_log"
"""What the kernel log is called among the checks."""


def verdict_of(host: Host, kernel: KernelWatch, runner: Runner, settled: frozenset[str], valid_for: float) -> Verdict:
    """Return the verdict on *host*; *settled* names what a person has judged, *valid_for* is in seconds."""
    blind = "; ".join(filter(None, (kernel.blind, *runner.blind)))
    state, findings, note = judge([*kernel.known, *runner.standing], settled, blind)
    return Verdict(host.node, state, time.time(), valid_for, host.boot_id, findings, note)


def outcomes_of(kernel: KernelWatch, runner: Runner, settled: frozenset[str]) -> tuple[Outcome, ...]:
    """Return what the kernel log and each check say now."""
    _, faults, _ = judge(kernel.known, frozenset(), "")
    said = concluded(KERNEL_LOG, faults, trouble=kernel.blind, age_s=0.0)
    return tuple(forgiven(each, settled) for each in (said, *runner.outcomes()))


def for_gpus(verdict: Verdict, gpus: Sequence[str]) -> Verdict:
    """Return *verdict* for a job on *gpus* (PCI addresses): warnings of other GPUs are not its business, faults are."""
    if verdict.state is not State.WARN or not gpus:
        return verdict
    kept = tuple(each for each in verdict.findings if each.convicts or each.evidence.gpu in {None, *gpus})
    return replace(verdict, findings=kept, state=State.WARN if kept else State.OK)
