"""Where a cgroup lies: one tree with all controllers (v2), one per controller (v1), or both beside each other."""

from __future__ import annotations

from pathlib import Path

from wheeltapper.checks.model import Host

TREES = {"cpu": ("cpu", "cpu,cpuacct", "cpuacct,cpu"), "memory": ("memory",), "pids": ("pids",)}
"""The folders of version 1 that hold each controller."""

SLURM = (
    "*/slurm*/uid_*/job_{job}",
    "system.slice/*slurmstepd.scope/job_{job}",
    "*/system.slice/*slurmstepd.scope/job_{job}",
)
"""Where Slurm puts a job: its plugin for version 1, for version 2, and for a hybrid machine's version 2."""


def top(host: Host) -> Path:
    """The folder where all cgroups are mounted."""
    return host.sysfs / "fs/cgroup"


def folders(host: Host, controller: str, cgroup: Path) -> list[Path]:
    """Return the folder of *cgroup* in the tree of *controller* and those above it, the tree's own top left out.

    Empty where the tree has no such cgroup. The top itself is returned only when it is what was asked for: inside a
    container it is the container's own cgroup.
    """
    inside = str(cgroup).strip("/")
    for tree in (*(top(host) / name for name in TREES[controller]), *unified(host)):
        if (tree / inside).is_dir():
            depth = len(Path(inside).parts)
            own = tree / inside
            return [own, *list(own.parents)[: max(0, depth - 1)]]
    return []


def unified(host: Host) -> list[Path]:
    """Return the tops of version 2: alone, or under ``unified`` beside version 1."""
    return [path for path in (top(host), top(host) / "unified") if (path / "cgroup.controllers").is_file()]


def of_job(host: Host, job: str) -> Path | None:
    """Return the cgroup that Slurm made for *job*, as :func:`read` takes it; None where it made none."""
    for pattern in SLURM:
        for found in sorted(top(host).glob(pattern.format(job=job))):
            return _inside(host, found)
    return None


def of_process(host: Host, pid: int) -> Path:
    """Return the cgroup of the process *pid*: that of its CPU limit, where controllers have trees of their own.

    Raises:
        OSError: the process is gone.
        ValueError: it is in no cgroup that counts processor time.
    """
    unified_path = None
    for line in (host.procfs / str(pid) / "cgroup").read_text(encoding="utf-8").splitlines():
        _, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            return Path(path)
        if not controllers:
            unified_path = Path(path)
    if unified_path is None:
        raise ValueError(f"process {pid} is in no cgroup that counts processor time")
    return unified_path


def _inside(host: Host, folder: Path) -> Path:
    """Return *folder* as its tree names it."""
    inside = folder.relative_to(top(host))
    trees = {name for names in TREES.values() for name in names} | {"unified", "cpuset", "freezer", "devices"}
    return Path(*inside.parts[1:]) if inside.parts[0] in trees else inside
