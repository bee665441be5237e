"""The walls of a private Docker: PID, mount, network, UTS and IPC namespaces that end with their owner."""

from __future__ import annotations

import secrets
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tests import processes
from tests.e2e.kubernetes.cluster.errors import ClusterError

ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
"""What everything inside starts with; nothing of the test's own environment leaks in."""

_ENTERED = ("--mount", "--net", "--uts", "--ipc", "--pid")

# Process 1 is a `cat` on a pipe from the owner: however the owner ends, the pipe does, then `cat`, and with process 1
# the kernel kills all others, containers too. It ignores SIGCHLD, so the kernel reaps the orphans left to it.
# /run is empty: the machine's own containerd, where it has one, must not be found there.
# The bridge gives a default route, without which the nodes would call their network unreachable; it leads nowhere.
# Its address is one of RFC 5737, for documentation.
_INIT = """
set -e
mount -t tmpfs -o mode=755 wheeltapper /run
mkdir /run/lock
ip link set lo up
ip link add outside type bridge
ip address add 192.0.2.1/24 dev outside
ip link set outside up
ip route add default dev outside
echo 1 >/proc/sys/net/ipv4/ip_forward
echo ready
exec env --ignore-signal=CHLD cat
"""

# The holder outlives the owner, so that what the kernel does not take along goes as well: control groups, and the
# folder $2 with the images and the nodes' disks. A group is busy until the last process in it is reaped.
_HOLDER = f"""
unshare --pid --fork --mount-proc --mount --net --uts --ipc --kill-child sh -c '{_INIT}'
left=200
for group in /sys/fs/cgroup/"$1" /sys/fs/cgroup/*/"$1"; do
    while [ -d "$group" ] && [ $left -gt 0 ]; do
        find "$group" -depth -type d -exec rmdir {{}} + 2>/dev/null || sleep 0.1
        left=$((left - 1))
    done
done
rm -rf "$2"
"""


class Walls:
    """The namespaces of one private Docker. ``pid`` is their process 1, as the machine sees it.

    ``scratch`` is a folder that goes with them. ``cgroup`` is the name of the control group for all containers inside.
    """

    def __init__(self, scratch: Path, log: Path) -> None:
        self.scratch = scratch
        self.log = log
        self.cgroup = f"wheeltapper-{secrets.token_hex(4)}"
        self.pid = 0
        self._holder: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Make the namespaces.

        Raises:
            ClusterError: the machine refused; the message holds its words.
        """
        self.scratch.mkdir(parents=True, exist_ok=True)
        with self.log.open("wb") as log:
            self._holder = subprocess.Popen(
                ["sh", "-c", _HOLDER, "sh", self.cgroup, str(self.scratch)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=ENVIRONMENT, start_new_session=True,
            )  # fmt: skip
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"ready\n":
            self.stop()
            raise ClusterError(f"the namespaces could not be made: {self.log.read_text().strip()}")
        self.pid = _child(_child(self._holder.pid))

    def stop(self) -> None:
        """End every process inside, and wait until nothing of them is left."""
        if self._holder is None:
            return
        for pipe in (self._holder.stdin, self._holder.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()
        self._holder.wait()
        self._holder = None
        self.pid = 0


def entering(pid: int, argv: Sequence[str]) -> list[str]:
    """The command line that runs *argv* inside the walls around process *pid*."""
    if not pid:
        raise ClusterError("the cluster is not running")
    return ["nsenter", f"--target={pid}", *_ENTERED, *argv]


def in_network(pid: int, argv: Sequence[str]) -> list[str]:
    """The command line that runs *argv* in the network inside, with the machine's own files and processes."""
    if not pid:
        raise ClusterError("the cluster is not running")
    return ["nsenter", f"--target={pid}", "--net", *argv]


def _child(parent: int, timeout: float = 30.0) -> int:
    """The process id of *parent*'s one child, waited for up to *timeout* seconds.

    Raises:
        ClusterError: the parent ended or started nothing in that time.
    """
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        for status in processes.files("stat"):
            with suppress(OSError):
                # The program's name, in parentheses, may hold spaces; after it come state and parent.
                if int(status.read_text().rpartition(")")[2].split()[1]) == parent:
                    return int(status.parent.name)
        time.sleep(0.005)
    raise ClusterError(f"process {parent} ended, or started nothing within {timeout:g} s")
