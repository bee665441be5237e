"""A cluster is walled in while it runs, and leaves nothing behind when it ends, however it ends."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.e2e.slurm.cluster import Cluster, Hooks
from tests.e2e.slurm.cluster.hooks import CHECKOUT
from tests.e2e.slurm.cluster.namespaces import sharing

SHARED_FOLDERS = ("/etc", "/run", "/var/lib", "/var/log", "/var/spool", "/dev", "/dev/shm", "/tmp")
"""Where Slurm, MUNGE and Wheeltapper write by default, and where temporary files go."""

OURS = ("slurm", "munge", "wheeltapper")

NAMESPACES = ("pid", "mnt", "net", "uts", "ipc")

LONG_JOB = "trap '' TERM; echo started; sleep 600 & wait; sleep 600"
"""A job that does not go when it is asked to."""

PR_SET_CHILD_SUBREAPER = 36  # Linux, include/uapi/linux/prctl.h


def _until(condition: Callable[[], bool], why: str, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{why} did not happen within {seconds:g} s"
        os.sched_yield()


def _our_files() -> set[Path]:
    """Everything in the machine's shared folders that bears one of our names.

    The temporary folders of tests are left out: others may run beside this one.
    """
    return {
        path
        for folder in SHARED_FOLDERS
        for path in Path(folder).iterdir()
        if any(name in path.name for name in OURS) and not (folder == "/tmp" and path.name.startswith("wheeltapper-"))
    }


def _listening_ports() -> set[int]:
    """TCP ports on which anything listens in the machine's own network namespace."""
    lines = [line for table in ("tcp", "tcp6") for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]]
    return {int(line.split()[1].rpartition(":")[2], 16) for line in lines if line.split()[3] == "0A"}


def _namespace_ids(pid: int) -> dict[str, str]:
    return {kind: str(Path(f"/proc/{pid}/ns/{kind}").readlink()) for kind in NAMESPACES}


def _ports(cluster: Cluster) -> set[int]:
    return {cluster.layout.port, cluster.layout.service_port, *cluster.layout.slurmd_ports}


@pytest.fixture
def held() -> Iterator[ExitStack]:
    """What a test holds open to its end."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def two_folders(cluster_folder: Path) -> tuple[Path, Path]:
    return cluster_folder / "one", cluster_folder / "two"


def test_two_clusters_side_by_side_stay_within_their_walls_and_leave_nothing(
    two_folders: tuple[Path, Path], held: ExitStack
) -> None:
    """Both run jobs at once, nothing of them shows outside, and after the stop nothing of them is left."""
    files_before, ports_before = _our_files(), _listening_ports()
    # No health checks: they come and go, and the processes are counted below.
    options: dict[str, Any] = {"nodes": 2, "agents": False, "controller": False, "hooks": Hooks(healthcheck=None)}
    with Cluster(two_folders[0], **options) as one, Cluster(two_folders[1], **options) as two:
        clusters = (one, two)
        for cluster in clusters:
            for user in ("root", "nobody"):
                job = cluster.sbatch(LONG_JOB, f"--nodelist={'node1' if user == 'root' else 'node2'}", user=user)
                cluster.wait(lambda job=job, cluster=cluster: cluster.output(job), 20.0, f"job {job} to start")
            _assert_walled_in(cluster)
            assert not _ports(cluster) & (_listening_ports() - ports_before)
        assert not _ports(one) & _ports(two)
        pids = [pid for cluster in clusters for pid in sharing(cluster.slurmctld.pid, "pid")]
        inside = held.enter_context(processes.namespaces((one.slurmctld.pid, two.slurmctld.pid), NAMESPACES))
    for folder in two_folders:
        assert not processes.naming(folder)
        assert not processes.mounts_of(folder)
    assert not [pid for pid in pids if Path(f"/proc/{pid}").exists()]
    assert not inside & processes.inhabited_namespaces()
    assert not _our_files() - files_before


def _assert_walled_in(cluster: Cluster) -> None:
    outside = _namespace_ids(os.getpid())
    walls = {kind: _namespace_ids(cluster.munged.pid)[kind] for kind in ("pid", "net", "uts", "ipc")}
    seen = []
    for pid in sharing(cluster.slurmctld.pid, "pid"):
        # What a hook or a launch starts may be gone before it is looked at.
        with suppress(FileNotFoundError, ProcessLookupError):
            ids = _namespace_ids(pid)
            seen.append(Path(f"/proc/{pid}/cmdline").read_text())
            assert not set(ids.values()) & set(outside.values())
            assert {kind: ids[kind] for kind in walls} == walls
    for program in ("munged", "slurmctld", "slurmd", "slurmstepd", "slurm_script"):
        assert any(program in command for command in seen), f"no {program} was seen inside"
    devices = cluster.run("ip", "-oneline", "link").stdout.splitlines()
    assert [device.split()[1] for device in devices] == ["lo:"]
    assert not processes.mounts_of(cluster.folder)


@pytest.fixture
def adopting() -> Iterator[None]:
    """Adopt orphans and reap them: process 1 of a container may not, and then each would stay as a zombie."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


_OWNER = f"""
import sys
from pathlib import Path
from tests.e2e.slurm.cluster import Cluster

with Cluster(Path(sys.argv[1]), nodes=2, agents=False, controller=False) as cluster:
    job = cluster.sbatch({LONG_JOB!r})
    cluster.wait_job(job, "RUNNING")
    if sys.argv[2] == "frozen":
        cluster.node("node1").slurmd.pause()
    print(cluster.slurmctld.pid, cluster.node("node1").slurmd.pid, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("daemons", ["running", "frozen"])
def test_a_cluster_ends_with_its_owner_even_when_that_is_killed(
    cluster_folder: Path, adopting: None, held: ExitStack, daemons: str
) -> None:
    """After SIGKILL of the owning process no process, mount or namespace of its cluster is left, even of frozen ones."""
    files_before = _our_files()
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(cluster_folder), daemons],
        cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with owner:
        assert owner.stdout is not None
        slurmctld, slurmd = map(int, owner.stdout.readline().split())
        pids = sharing(slurmctld, "pid")
        inside = held.enter_context(processes.namespaces((slurmctld, slurmd), NAMESPACES))
        owner.send_signal(signal.SIGKILL)
    _until(lambda: not _alive(pids), "the end of every process in the cluster")
    _until(lambda: not processes.naming(cluster_folder), "the end of every process around the cluster")
    assert not inside & processes.inhabited_namespaces()
    assert not processes.mounts_of(cluster_folder)
    assert not _our_files() - files_before


def _alive(pids: list[int]) -> list[int]:
    """Those of *pids* that still exist, after reaping what this process has adopted; it has no other children here."""
    for child in processes.files("stat"):
        with suppress(OSError, ChildProcessError):
            parent = int(child.read_text().rpartition(")")[2].split()[1])
            if parent == os.getpid():
                os.waitpid(int(child.parent.name), os.WNOHANG)
    return [pid for pid in pids if Path(f"/proc/{pid}").exists()]
