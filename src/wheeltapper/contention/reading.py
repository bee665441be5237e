"""Reads a job's cgroup and the machine's counters around it: some twenty small files, none of which can hang."""

from __future__ import annotations

import re
import time
from pathlib import Path

from wheeltapper.checks.files import lines, number, pairs, text
from wheeltapper.checks.model import Host
from wheeltapper.contention.model import CpuTime, Memory, Pages, Sample, Stall
from wheeltapper.contention.places import folders, unified

_TOTAL = re.compile(r"^(some|full) .*\btotal=(\d+)")

RESOURCES = ("cpu", "memory", "io")

NO_LIMIT = 1 << 60
"""Version 1 writes the largest multiple of a page for "no limit"."""


def read(host: Host, cgroup: Path) -> Sample:
    """Return what *host* counts of *cgroup*, named as in ``/proc/PID/cgroup``: ``/slurm/uid_0/job_12``.

    Raises:
        FileNotFoundError: there is no such cgroup, or no longer.
    """
    cpu = folders(host, "cpu", cgroup)
    memory = folders(host, "memory", cgroup)
    pids = folders(host, "pids", cgroup)
    if not (cpu or memory or pids):
        raise FileNotFoundError(f"there is no cgroup {cgroup}")
    return Sample(
        at=time.time(),
        clock=time.monotonic(),
        cgroup=str(cgroup),
        cpu=tuple(found for folder in cpu if (found := _cpu(folder, cpu[0]))),
        memory=_memory(memory[0]) if memory else None,
        pids_refused=pairs(pids[0] / "pids.events").get("max") if pids else None,
        stalls=_stalls(_own_pressure(host, cgroup), "{}.pressure"),
        node_stalls=_stalls(host.procfs / "pressure", "{}"),
        pages=_pages(host),
    )


def _cpu(folder: Path, own: Path) -> CpuTime | None:
    """Return the times of *folder*; None for a cgroup above *own* that limits nothing, or one that counts nothing."""
    counted = pairs(folder / "cpu.stat")
    if "nr_periods" not in counted:
        return None
    cpus, period_s = _limit(folder)
    if cpus is None and folder != own:
        return None
    # Version 2 counts microseconds, version 1 nanoseconds.
    stopped_s = counted.get("throttled_usec", 0) / 1e6 + counted.get("throttled_time", 0) / 1e9
    return CpuTime(str(folder), counted["nr_periods"], counted.get("nr_throttled", 0), stopped_s, cpus, period_s)


def _limit(folder: Path) -> tuple[float | None, float]:
    """Return how many CPUs' worth of time the cgroup may use, and the period over which that is counted."""
    words = (text(folder / "cpu.max") or "").split()
    quota, period = words if len(words) == 2 else ("max", "100000")
    if not words:
        quota = str(number(folder / "cpu.cfs_quota_us") or -1)
        period = str(number(folder / "cpu.cfs_period_us") or 100_000)
    limited = quota.isdigit() and period.isdigit() and int(period) > 0
    period_s = int(period) / 1e6 if period.isdigit() and int(period) > 0 else 0.1
    return (int(quota) / int(period) if limited else None), period_s


def _memory(folder: Path) -> Memory | None:
    events = pairs(folder / "memory.events")
    if events:
        limit, peak = number(folder / "memory.max"), number(folder / "memory.peak")
        return Memory(events.get("oom_kill", 0), events.get("oom", 0), peak, limit)
    counted = pairs(folder / "memory.oom_control")
    refusals = number(folder / "memory.failcnt")
    if not counted and refusals is None:
        return None
    limit = number(folder / "memory.limit_in_bytes")
    return Memory(
        counted.get("oom_kill", 0),
        refusals or 0,
        number(folder / "memory.max_usage_in_bytes"),
        limit if limit is not None and limit < NO_LIMIT else None,
    )


def _own_pressure(host: Host, cgroup: Path) -> Path | None:
    for tree in unified(host):
        if (own := tree / str(cgroup).strip("/")).is_dir():
            return own
    return None


def _stalls(folder: Path | None, name: str) -> dict[str, Stall]:
    found = {}
    for resource in RESOURCES if folder else ():
        total = {}
        for line in lines(folder / name.format(resource)) if folder else ():
            if match := _TOTAL.match(line):
                total[match[1]] = int(match[2]) / 1e6
        if total:
            found[resource] = Stall(total.get("some", 0.0), total.get("full", 0.0))
    return found


def _pages(host: Host) -> Pages | None:
    counted = [pairs(path) for path in sorted((host.sysfs / "devices/system/node").glob("node*/numastat"))]
    if not any(counted):
        return None
    return Pages(sum(each.get("numa_hit", 0) for each in counted), sum(each.get("numa_miss", 0) for each in counted))
