"""A cluster leaves nothing behind when it ends, however it ends, and the cluster beside it does not notice."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests import processes
from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.cluster.docker import Docker
from tests.e2e.kubernetes.cluster.sharing import CHECKOUT

NAMESPACES = ("pid", "net", "uts", "ipc")
"""Not that of the mounts: who holds it open holds disks open, and whoever lives in one of them lives in the others."""

PR_SET_CHILD_SUBREAPER = 36  # Linux, include/uapi/linux/prctl.h

_OWNER = """
import sys
from pathlib import Path
from tests.e2e.kubernetes.cluster import started

with started(Path(sys.argv[1]), workers=1) as cluster:
    cluster.kubectl("create", "configmap", "only-here")
    print(cluster.walls, cluster.name, cluster.docker.socket, flush=True)
    sys.stdin.read()
"""


def _until_nothing(left: Callable[[], list[str]], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while found := left():
        assert time.monotonic() < deadline, f"after {seconds:g} s there are still {found}"
        os.sched_yield()


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]


def _born(pid: int) -> int:
    """When a process started, in ticks since boot, 0 where there is none.

    A busy machine gives the number of a process to another one within minutes.
    """
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    return 0


def _below(ancestor: int) -> list[int]:
    """All descendants of a process, itself among them."""
    parents = {}
    for pid in _all_pids():
        with suppress(OSError):
            parents[pid] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    found = {ancestor}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def _cgroups_of(pids: list[int]) -> set[Path]:
    """The control groups that were made for these processes, one in each hierarchy; other clusters have others."""
    names = set()
    for pid in pids:
        with suppress(OSError):
            names |= set(re.findall(r"/(wheeltapper-[0-9a-f]+)", Path(f"/proc/{pid}/cgroup").read_text()))
    return {path for name in names for pattern in (name, f"*/{name}") for path in Path("/sys/fs/cgroup").glob(pattern)}


def _containers(name: str) -> str:
    """What the machine's own Docker, where it has one, shows of the cluster."""
    docker = Docker()
    return (
        docker.call("ps", "--all", "--quiet", f"--filter=label=io.x-k8s.kind.cluster={name}")
        if docker.answers()
        else ""
    )


@pytest.fixture
def held() -> Iterator[ExitStack]:
    """What a test holds open to its end."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def adopting() -> Iterator[None]:
    """Adopt orphans and reap them: process 1 of a container may not, and then each would stay as a zombie."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


@pytest.mark.parametrize("end", ["asked", "killed"])
def test_nothing_of_a_cluster_is_left_when_its_owner_ends(
    cluster: Cluster, cluster_folder: Path, adopting: None, held: ExitStack, end: str
) -> None:
    """No process, namespace, mount, control group, container or disk, also after SIGKILL; the other cluster runs on."""
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(cluster_folder)],
        cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with owner:
        assert owner.stdout is not None
        walls, name, socket = owner.stdout.readline().split()
        disks = Path(socket).parent / "docker"
        pids = _below(int(walls)) if int(walls) else []
        inside = held.enter_context(processes.namespaces(pids, NAMESPACES))
        born = {pid: _born(pid) for pid in pids}
        cgroups = _cgroups_of(pids)
        assert bool(cgroups) == bool(pids)
        assert not cluster.get("configmap", "only-here")
        if end == "killed":
            owner.send_signal(signal.SIGKILL)

    def left() -> list[str]:
        _reap()
        return [
            *(f"process {pid}" for pid, start in born.items() if start and _born(pid) == start),
            *processes.naming(cluster_folder),
            *processes.naming(disks.parent),
            *(str(path) for path in (disks, *cgroups) if path.exists()),
            *_containers(name).split(),
        ]

    _until_nothing(left)
    assert not inside & processes.inhabited_namespaces()
    assert not processes.mounts_of(cluster_folder)
    assert cluster.kubectl("get", "--raw=/readyz") == "ok"
