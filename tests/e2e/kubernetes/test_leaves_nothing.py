"""A cluster leaves nothing behind when it ends, however it ends, and the cluster beside it does not notice."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.kubernetes.cluster import Cluster
from tests.e2e.kubernetes.cluster.docker import Docker
from tests.e2e.kubernetes.cluster.sharing import CHECKOUT

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


def _until(condition: Callable[[], bool], why: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{why} did not happen within {seconds:g} s"
        os.sched_yield()


def _processes_that_name(folder: Path) -> list[str]:
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            text = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(folder) in text and int(file.parent.name) != os.getpid():
                found.append(text)
    return found


def _namespaces_of(pids: list[int]) -> set[str]:
    found = set()
    for pid in pids:
        for link in Path(f"/proc/{pid}/ns").glob("*"):
            with suppress(OSError):
                found.add(str(link.readlink()))
    return found


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]


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


def _mounts_of(folder: Path) -> list[str]:
    return [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(folder) in line]


def _cgroups() -> set[Path]:
    return {path for pattern in ("wheeltapper-*", "*/wheeltapper-*") for path in Path("/sys/fs/cgroup").glob(pattern)}


def _containers(name: str) -> str:
    """What the machine's own Docker, where it has one, shows of the cluster."""
    docker = Docker()
    return (
        docker.call("ps", "--all", "--quiet", f"--filter=label=io.x-k8s.kind.cluster={name}")
        if docker.answers()
        else ""
    )


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
    cluster: Cluster, cluster_folder: Path, adopting: None, end: str
) -> None:
    """No process, namespace, mount, control group, container or disk, also after SIGKILL; the other cluster runs on."""
    cgroups_before = _cgroups()
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(cluster_folder)],
        cwd=CHECKOUT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    with owner:
        assert owner.stdout is not None
        walls, name, socket = owner.stdout.readline().split()
        disks = Path(socket).parent / "docker"
        pids = _below(int(walls)) if int(walls) else []
        inside = _namespaces_of(pids) - _namespaces_of([os.getpid()])
        assert not cluster.get("configmap", "only-here")
        if end == "killed":
            owner.send_signal(signal.SIGKILL)

    def gone() -> bool:
        _reap()
        alive = [pid for pid in pids if Path(f"/proc/{pid}").exists()]
        return not (
            alive
            or _processes_that_name(cluster_folder)
            or _cgroups() - cgroups_before
            or _containers(name)
            or disks.exists()
        )

    _until(gone, "the end of every process, control group and container of the cluster")
    assert not inside & _namespaces_of(_all_pids())
    assert not _mounts_of(cluster_folder)
    assert cluster.kubectl("get", "--raw=/readyz") == "ok"
