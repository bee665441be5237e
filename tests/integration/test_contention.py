"""Cgroups of both versions as folders: where a job's lies, and what is read there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.make import BOOT
from wheeltapper.checks.model import Host
from wheeltapper.contention import of_job, of_process, read
from wheeltapper.contention.model import CpuTime, Memory, Pages, Stall

V2 = {
    "cgroup.controllers": "cpu memory pids",
    "system.slice/slurmstepd.scope/job_12/cpu.stat": "usage_usec 9\nnr_periods 70\nnr_throttled 50\nthrottled_usec 4500000",
    "system.slice/slurmstepd.scope/job_12/cpu.max": "200000 100000",
    "system.slice/slurmstepd.scope/cpu.stat": "nr_periods 7\nnr_throttled 5\nthrottled_usec 1000000",
    "system.slice/slurmstepd.scope/cpu.max": "50000 50000",
    "system.slice/cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_usec 0",
    "system.slice/cpu.max": "max 100000",
    "system.slice/slurmstepd.scope/job_12/memory.events": "low 0\nhigh 0\nmax 4\noom 2\noom_kill 1",
    "system.slice/slurmstepd.scope/job_12/memory.max": "max",
    "system.slice/slurmstepd.scope/job_12/memory.peak": "4096",
    "system.slice/slurmstepd.scope/job_12/pids.events": "max 3",
    "system.slice/slurmstepd.scope/job_12/io.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=3000000\n"
    "full avg10=0.00 avg60=0.00 avg300=0.00 total=2000000",
}

V1 = {
    "cpu,cpuacct/slurm/uid_0/job_12/cpu.stat": "nr_periods 70\nnr_throttled 50\nthrottled_time 4500000000",
    "cpu,cpuacct/slurm/uid_0/job_12/cpu.cfs_quota_us": "150000",
    "cpu,cpuacct/slurm/uid_0/job_12/cpu.cfs_period_us": "100000",
    "memory/slurm/uid_0/job_12/memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 1",
    "memory/slurm/uid_0/job_12/memory.failcnt": "9",
    "memory/slurm/uid_0/job_12/memory.limit_in_bytes": "9223372036854771712",
    "memory/slurm/uid_0/job_12/memory.max_usage_in_bytes": "4096",
    "pids/slurm/uid_0/job_12/pids.events": "max 3",
}


def host(tmp_path: Path, cgroups: dict[str, str], **others: str) -> Host:
    files = {f"sys/fs/cgroup/{name}": content for name, content in cgroups.items()} | others
    for name, content in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content + "\n")
    return Host("n1", BOOT, sysfs=tmp_path / "sys", procfs=tmp_path / "proc")


def test_version_2_is_read_with_the_limits_above_the_job(tmp_path):
    node = host(tmp_path, V2)
    scope = tmp_path / "sys/fs/cgroup/system.slice/slurmstepd.scope"

    seen = read(node, Path("/system.slice/slurmstepd.scope/job_12"))

    assert seen.cpu == (
        CpuTime(str(scope / "job_12"), 70, 50, 4.5, 2.0, 0.1),
        CpuTime(str(scope), 7, 5, 1.0, 1.0, 0.05),
    )
    assert seen.memory == Memory(kills=1, refusals=2, peak=4096, limit=None)
    assert seen.pids_refused == 3
    assert seen.stalls == {"io": Stall(3.0, 2.0)}


def test_version_1_is_read_from_a_tree_per_controller(tmp_path):
    node = host(tmp_path, V1)

    seen = read(node, Path("/slurm/uid_0/job_12"))

    own = tmp_path / "sys/fs/cgroup/cpu,cpuacct/slurm/uid_0/job_12"
    assert seen.cpu == (CpuTime(str(own), 70, 50, 4.5, 1.5, 0.1),)
    assert seen.memory == Memory(kills=1, refusals=9, peak=4096, limit=None)
    assert (seen.pids_refused, seen.stalls) == (3, {})


def test_the_machine_around_the_job_is_read_too(tmp_path):
    pressure = "some avg10=0.00 avg60=0.00 avg300=0.00 total=5000000"
    nodes = {f"sys/devices/system/node/node{number}/numastat": f"numa_hit {number}0\nnuma_miss 4" for number in (1, 2)}
    node = host(tmp_path, V2, **{"proc/pressure/cpu": pressure, **nodes})

    seen = read(node, Path("/system.slice"))

    assert seen.node_stalls == {"cpu": Stall(5.0, 0.0)}
    assert seen.pages == Pages(hits=30, misses=8)


@pytest.mark.parametrize(
    ("cgroups", "expected"),
    [
        (V2, "system.slice/slurmstepd.scope/job_12"),
        (V1, "slurm/uid_0/job_12"),
        ({"unified/cgroup.controllers": "", "unified/system.slice/n1_slurmstepd.scope/job_12/x": ""},
         "system.slice/n1_slurmstepd.scope/job_12"),
        ({"cpu/slurm_n1/uid_7/job_12/tasks": ""}, "slurm_n1/uid_7/job_12"),
    ],
    ids=["v2", "v1", "hybrid", "several daemons"],
)  # fmt: skip
def test_the_cgroup_of_a_job_is_found(tmp_path, cgroups, expected):
    node = host(tmp_path, cgroups)

    assert of_job(node, "12") == Path(expected)
    assert of_job(node, "1") is None


@pytest.mark.parametrize(
    ("lines", "expected"),
    [("0::/a/b", "/a/b"), ("4:memory:/m\n2:cpu,cpuacct:/c\n0::/u", "/c")],
    ids=["v2", "v1"],
)
def test_the_cgroup_of_a_process_is_that_of_its_cpu_limit(tmp_path, lines, expected):
    assert of_process(host(tmp_path, {}, **{"proc/7/cgroup": lines}), 7) == Path(expected)


def test_a_process_without_a_cgroup_is_said_to_have_none(tmp_path):
    with pytest.raises(ValueError, match="process 7 is in no cgroup that counts"):
        of_process(host(tmp_path, {}, **{"proc/7/cgroup": "3:memory:/m"}), 7)


@pytest.mark.parametrize("cgroups", [V1, V2, {}], ids=["v1", "v2", "none"])
def test_a_cgroup_that_is_gone_is_an_error(tmp_path, cgroups):
    with pytest.raises(FileNotFoundError, match="there is no cgroup"):
        read(host(tmp_path, cgroups), Path("/slurm/uid_0/job_99"))
