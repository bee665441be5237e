"""What the limits of a job's own cgroup did to it: time that it was not let run, processes that were killed."""

from __future__ import annotations

from collections.abc import Sequence

from wheeltapper.defaults import PERIODS_MIN, STOPPED_MIN, THROTTLED_SHARE
from wheeltapper.evidence import Finding
from wheeltapper.inputs.judging.counters import Growth, growths
from wheeltapper.inputs.model import Rule, Sample

THROTTLED = Rule(
    "cgroup.throttled", "resource/cpu_throttle", "the CPU limit stopped the job's processes most of the time"
)
OOM = Rule("cgroup.oom_kill", "resource/host_oom", "processes of the cgroup were killed for want of memory")
PIDS = Rule("cgroup.pids", "resource/pids_limit", "the cgroup had no process number left")

PERIOD_S = 0.1
"""The kernel's default period of a CPU limit."""


def judge(samples: Sequence[Sample]) -> list[Finding]:
    """Return what the cgroup counters among *samples* say. A cgroup is as old as its job: one sample is enough."""
    own = [each for each in samples if each.kind == "cgroup"]
    grown = {(each.last.seen.node, each.last.device, each.last.name): each for each in growths(own)}
    for each in own:
        key = (each.seen.node, each.device, each.name)
        grown.setdefault(key, Growth(each, each.value, None))
    found = []
    for (node, device, name), growth in grown.items():
        if name == "nr_throttled" and _is_throttled(node, device, grown):
            found.append(_finding(THROTTLED, growth, grown[node, device, "nr_periods"].delta))
        elif name == "oom_kill" and growth.delta:
            found.append(_finding(OOM, growth))
        elif name == "pids_max" and growth.delta:
            found.append(_finding(PIDS, growth))
    return found


def _is_throttled(node: str | None, device: str, grown: dict[tuple[str | None, str, str], Growth]) -> bool:
    def delta(name: str) -> int:
        known = grown.get((node, device, name))
        return known.delta if known else 0

    periods = delta("nr_periods")
    # cgroup v2 counts microseconds, v1 nanoseconds.
    stopped_s = delta("throttled_usec") / 1e6 + delta("throttled_time") / 1e9
    return (
        periods >= PERIODS_MIN
        and delta("nr_throttled") >= THROTTLED_SHARE * periods
        and stopped_s >= STOPPED_MIN * periods * PERIOD_S
    )


def _finding(rule: Rule, grown: Growth, of: int | None = None) -> Finding:
    note = f" of {of} periods" if of is not None else ""
    return rule.of(grown.seen(note), detail=f"{grown.last.name}={grown.delta}")
