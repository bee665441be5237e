"""Checks on a real cluster: one that fails keeps jobs off its node; a job that was throttled is told so."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.slurm.story import CALM, FULL, drained, explained, labelled
from tests.integration.site_check import SiteCheck

CGROUPS = Path("/sys/fs/cgroup")

TIMED_OUT = (
    "[rank0]:[E ProcessGroupNCCL.cpp:616] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, "
    "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds before timing out."
)
"""What a rank says that has waited for one that came late."""


@pytest.fixture(scope="module")
def cluster(start_cluster):
    # In real life a minute must have passed, and samples are further apart.
    quick = {"contention": {"sample_s": 0.5, "periods_min": 20}}
    return start_cluster(nodes=2, config={**FULL, **quick}, healthcheck_interval=CALM)


def test_a_node_whose_check_fails_is_kept_from_jobs_with_a_reason(cluster):
    node = cluster.node("node1")
    check = SiteCheck(node.files.etc / "checks.d")
    check.tell("cracked")
    node.agent.stop()
    node.agent.start()
    cluster.wait(node.agent.ready, 15.0, "the agent")
    node.wait_verdict("fail")

    job = cluster.sbatch("hostname")

    done = cluster.wait_job(job, "COMPLETED", 60.0)
    assert done["NodeList"] == "node2"
    assert drained(cluster) == {"node1"}
    shape = rf"wheeltapper: hardware/power wheel=3 job={job} at=\d{{4}}-\d\d-\d\dT[\d:]{{8}}Z: replace"
    assert re.fullmatch(shape, cluster.node_state("node1")[1])
    assert explained(cluster, job)["attempt"]["ending"] == "launch_failed"


@pytest.fixture
def throttling(request) -> Iterator[str]:
    """Shell lines with which a job gives itself the cgroup that Slurm's plugin would, with 0.04 CPUs.

    However busy the machine is, there is more than that to be had: what stops the job is its limit.
    The cluster's nodes share this machine's cgroups, so Slurm's own plugin cannot make them for each; the quota, its
    cgroup and the throttling are the kernel's own.
    """
    v1 = next(
        (CGROUPS / name for name in ("cpu", "cpu,cpuacct") if (CGROUPS / name / "cpu.cfs_quota_us").exists()), None
    )
    top = v1 or CGROUPS
    if v1 is None and "cpu" not in _text(CGROUPS / "cgroup.subtree_control"):
        pytest.skip("no cgroup with a limit of processor time can be made here")
    if not os.access(top / "cgroup.procs", os.W_OK):
        pytest.skip(f"{top} cannot be written here")
    inside = "slurm/uid_0" if v1 else "system.slice/slurmstepd.scope"
    quota = "cpu.cfs_quota_us" if v1 else "cpu.max"
    yield f"""
cgroup={top}/{inside}/job_$SLURM_JOB_ID
mkdir -p "$cgroup" && echo 4000 >"$cgroup/{quota}" && echo $$ >"$cgroup/cgroup.procs" || exit 7
"""
    for folder in (*(top / inside).glob("job_*"), top / inside, (top / inside).parent):
        if v1 and folder.is_dir():
            folder.rmdir()


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def test_a_job_that_its_cpu_quota_throttled_is_told_so_with_the_numbers(cluster, throttling):
    # Four, so that one of them always wants to run, on however busy a machine.
    spin = f"{sys.executable} -c 'import time; end = time.time() + 8\nwhile time.time() < end: pass' &\n" * 4

    job = cluster.sbatch(f"{throttling}{spin}wait\necho '{TIMED_OUT}' >&2\nexit 1", "--no-requeue", "--nodelist=node2")

    told = explained(cluster, job, timeout=60.0)
    label, detail, symptom = labelled(told)
    assert (label, symptom) == ("resource/cpu_throttle", "network/nccl_timeout")
    assert int(re.fullmatch(r"throttled=(\d+)%", detail)[1]) >= 60
    numbers = r"by the limit of 0\.04 CPUs in \d+ of \d+ periods; over \d+ s its processors stood still for \d+ s"
    assert re.search(numbers, told["diagnosis"]["chain"][0]["evidence"]["text"])
    assert "node2" not in drained(cluster)
