"""What samples of a job's cgroup say: what it lacked, with the numbers, and what it did not lack. Pure.

Thresholds are shared with the judge of cgroup files that people hand over (``inputs/judging/cgroups``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from wheeltapper.checks.model import Host
from wheeltapper.config import ContentionSection
from wheeltapper.contention.model import SIGNATURE, CpuTime, Sample, Stall
from wheeltapper.diagnosis.cleared import CLEARED
from wheeltapper.diagnosis.depth import OF_THE_NODE
from wheeltapper.evidence import Disposition, Evidence, Finding, Role, Source
from wheeltapper.labels import label

GIB = 1 << 30

STALLS = {"cpu": "resource/cpu_throttle", "io": "resource/shared_fs_io"}
"""What it means that nothing of a job ran for want of a resource. Pressure on memory is no kill: those are counted."""

WORDS = {"cpu": "processor time", "io": "files"}


@dataclass(frozen=True, slots=True)
class _Span:
    """What lies between the first and the last sample that are judged."""

    host: Host
    first: Sample
    last: Sample
    limits: ContentionSection

    @property
    def seconds(self) -> float:
        return self.last.clock - self.first.clock

    def finding(self, name: str, of: str, text: str, detail: str = "", role: Role = Role.ROOT) -> Finding:
        seen = Evidence(Source.CHECK, text, self.last.at, self.host.node, self.host.boot_id)
        fields = {"device": self.last.cgroup}
        return Finding(name, label(of), role, Disposition.NONE, seen, detail, SUMMARIES[of], fields)


PARTS = (1, 3, 6)
"""What throttles a job only near its end is seen in the last third or sixth of the window: five minutes of thirty."""

NEGLIGIBLE = 0.2
"""Share of a threshold below which a job lacked nothing. What lies between is said neither to be nor not to be."""

SUMMARIES = {
    "resource/cpu_throttle": "the job was not given the processor time that it asked for",
    "resource/host_oom": "processes of the job were killed for want of memory",
    "resource/pids_limit": "the job was refused processes or threads",
    "resource/shared_fs_io": "the job stood still waiting for files",
    "resource/memory_bandwidth": "memory was given out on the wrong side of the machine",
}


def judge(samples: Sequence[Sample], host: Host, limits: ContentionSection) -> list[Finding]:
    """Return what *samples* of one cgroup, the oldest first, say of its job on *host*.

    Shares of time are judged over the last ``limits.window_s`` and over the ends of it, events over all samples. The
    first sample should be taken when the job begins. What is benign says that the job did not lack it.
    """
    if not samples:
        return []
    last = samples[-1]
    events = list(_events(_Span(host, samples[0], last, limits)))
    if last.clock <= samples[0].clock:
        return events
    spans = [_Span(host, _first_within(samples, limits.window_s / part), last, limits) for part in PARTS]
    return [
        *_first_of(_throttled(each) or _stalled("cpu", each) for each in spans),
        *_first_of(_stalled("io", each) or _node_stalled(each) for each in spans),
        *_first_of(_misplaced(each) for each in spans),
        *events,
        *_cleared(spans),
    ]


def _first_within(samples: Sequence[Sample], seconds: float) -> Sample:
    """Return the first sample of the last *seconds*, or the one before the last where there is none."""
    last = samples[-1]
    earlier = [each for each in samples if each.clock < last.clock]
    return next((each for each in earlier if last.clock - each.clock <= seconds), earlier[-1])


def _first_of(found: Iterable[Finding | None]) -> list[Finding]:
    return [each for each in found if each is not None][:1]


def _throttled(span: _Span) -> Finding | None:
    """Return that a CPU limit, the job's own or one above it, stopped it for most of the time."""
    for now, then in _cpu_times(span):
        if _is_throttled(now, then, span.limits):
            of = "resource/cpu_throttle"
            return span.finding(f"{SIGNATURE}throttled", of, _throttling(now, then, span), _share(now, then))
    return None


def _cpu_times(span: _Span) -> list[tuple[CpuTime, CpuTime]]:
    """Return what each limit had counted at the end of *span*, and at its beginning."""
    before = {each.path: each for each in span.first.cpu}
    return [(now, before[now.path]) for now in span.last.cpu if now.path in before]


def _is_throttled(now: CpuTime, then: CpuTime, limits: ContentionSection) -> bool:
    periods = now.periods - then.periods
    return (
        periods >= limits.periods_min
        and now.throttled - then.throttled >= limits.throttled_share * periods
        and now.stopped_s - then.stopped_s >= limits.stopped_share * periods * now.period_s
    )


def _throttling(now: CpuTime, then: CpuTime, span: _Span) -> str:
    periods, throttled = now.periods - then.periods, now.throttled - then.throttled
    stopped_s = now.stopped_s - then.stopped_s
    limit = f" by the limit of {now.cpus:g} CPUs" if now.cpus is not None else ""
    return (
        f"{now.path} was stopped{limit} in {throttled} of {periods} periods; over {span.seconds:.0f} s its processors "
        f"stood still for {stopped_s:.0f} s"
    )


def _share(now: CpuTime, then: CpuTime) -> str:
    periods = now.periods - then.periods
    return f"throttled={100 * (now.throttled - then.throttled) / periods if periods > 0 else 0:.0f}%"


def _stalled(resource: str, span: _Span) -> Finding | None:
    """Return that nothing of the job ran for much of the time, for want of *resource*."""
    percent = _percent(span.first.stalls, span.last.stalls, resource, span.seconds)
    if percent is None or percent < span.limits.stalled_percent:
        return None
    node = _percent(span.first.node_stalls, span.last.node_stalls, resource, span.seconds)
    text = f"all of the job stood still for want of {WORDS[resource]} {percent:.0f} % of {span.seconds:.0f} s" + (
        f", the whole machine {node:.0f} %" if node is not None else ""
    )
    return span.finding(f"{SIGNATURE}stalled_{resource}", STALLS[resource], text, f"stalled={percent:.0f}%")


def _node_stalled(span: _Span) -> Finding | None:
    """Return that the whole machine waited for files, where cgroups of version 1 do not say whether the job did."""
    percent = _percent(span.first.node_stalls, span.last.node_stalls, "io", span.seconds)
    if "io" in span.last.stalls or percent is None or percent < span.limits.stalled_percent:
        return None
    text = f"all tasks of the machine stood still waiting for files {percent:.0f} % of {span.seconds:.0f} s"
    return span.finding(f"{OF_THE_NODE}stalled_io", STALLS["io"], text, f"stalled={percent:.0f}%")


def _percent(then: dict[str, Stall], now: dict[str, Stall], resource: str, seconds: float) -> float | None:
    """Return the percent of *seconds* in which nothing ran for want of *resource*; None where nobody counts."""
    if resource not in then or resource not in now:
        return None
    return 100 * (now[resource].full_s - then[resource].full_s) / seconds


def _misplaced(span: _Span) -> Finding | None:
    """Return that the machine gave out memory on other memory nodes than were wanted."""
    then, now = span.first.pages, span.last.pages
    if then is None or now is None:
        return None
    misses = now.misses - then.misses
    given = misses + now.hits - then.hits
    if misses < span.limits.misplaced_pages_min or 100 * misses < span.limits.misplaced_percent * given:
        return None
    text = f"{misses} of {given} pages were given out on another memory node than was wanted"
    detail = f"misplaced={100 * misses / given:.0f}%"
    return span.finding(f"{OF_THE_NODE}misplaced", "resource/memory_bandwidth", text, detail)


def _cleared(spans: Sequence[_Span]) -> Iterator[Finding]:
    """Yield what the job did not lack in any of *spans*; nothing where it lacked some, or where too little was seen.

    Only of what is counted over time: that no process was killed proves nothing, since a cgroup dies before it is
    sampled again.
    """
    longest = spans[0]
    times = _cpu_times(longest)
    if not times or longest.seconds < longest.limits.periods_min * times[0][0].period_s:
        return
    if all(_cost_nothing(now, then, each) for each in spans for now, then in _cpu_times(each)):
        limited = [pair for pair in times if pair[0].cpus is not None]
        text = _throttling(*limited[0], longest) if limited else "no limit of processor time stands over the job"
        yield longest.finding(f"{CLEARED}cpu", STALLS["cpu"], text, "throttled=0%", Role.BENIGN)
    percents = [_percent(each.first.stalls, each.last.stalls, "io", each.seconds) for each in spans]
    if all(each is not None and each <= longest.limits.stalled_percent * NEGLIGIBLE for each in percents):
        text = f"all of the job stood still waiting for files {percents[0]:.0f} % of {longest.seconds:.0f} s"
        yield longest.finding(f"{CLEARED}io", STALLS["io"], text, f"stalled={percents[0]:.0f}%", Role.BENIGN)


def _cost_nothing(now: CpuTime, then: CpuTime, span: _Span) -> bool:
    processor = _percent(span.first.stalls, span.last.stalls, "cpu", span.seconds) or 0.0
    return (
        now.stopped_s - then.stopped_s < span.limits.stopped_share * span.seconds
        and processor <= span.limits.stalled_percent * NEGLIGIBLE
    )


def _events(span: _Span) -> Iterator[Finding]:
    """Yield what happened at all since the first sample."""
    then, now = span.first.memory, span.last.memory
    if now is not None and (kills := now.kills - (then.kills if then else 0)) > 0:
        whose = "its own limit" if now.refusals > (then.refusals if then else 0) else "a limit that is not its own"
        limit = f", limit {now.limit / GIB:.1f} GiB" if now.limit is not None else ""
        peak = f", peak {now.peak / GIB:.1f} GiB" if now.peak is not None else ""
        text = f"{kills} processes of {span.last.cgroup} were killed at {whose}{limit}{peak}"
        yield span.finding(f"{SIGNATURE}oom_kill", "resource/host_oom", text, f"oom_kill={kills}")
    refused = (span.last.pids_refused or 0) - (span.first.pids_refused or 0)
    if refused > 0:
        text = f"{span.last.cgroup} was refused a process or thread {refused} times"
        yield span.finding(f"{SIGNATURE}pids", "resource/pids_limit", text, f"refused={refused}")
