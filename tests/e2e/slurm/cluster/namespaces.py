"""The walls of a cluster: PID, mount, network, UTS and IPC namespaces that end with their owner."""

from __future__ import annotations

import pwd
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests import processes
from tests.e2e.slurm.cluster.errors import ClusterError
from tests.e2e.slurm.cluster.requirements import PATH

ENVIRONMENT = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8"}
"""What every process in the cluster starts with; nothing of the test's own environment leaks in."""

# Process 1 is a `cat` on a pipe from the owner: however the owner ends, the pipe does, then `cat`, and with process 1
# the kernel kills all others. It ignores SIGCHLD, so the kernel reaps the orphans that Slurm leaves to it.
# glibc resolves even "127.0.0.1" only where some address lies outside 127/8 (getaddrinfo(3), AI_ADDRCONFIG): an address
# of RFC 5737, for documentation, on the loopback device leaves the network as closed as it was.
# The overlays give mount points (/run/wheeltapper and the like) that the machine itself need not have; over a release
# folder, one overlay is the whole root, and the folder stays as it is. There, too, all else is the machine's own.
_INIT = """
set -e
scratch=$1 release=$2
shift 2
mount -t tmpfs -o mode=755 wheeltapper "$scratch"
overlay() {
    mkdir -p "$scratch/$1/upper" "$scratch/$1/work"
    mount -t overlay -o "lowerdir=$2,upperdir=$scratch/$1/upper,workdir=$scratch/$1/work" wheeltapper "$3"
}
if [ -z "$release" ]; then
    for place in etc run var/lib var/spool; do
        overlay "$place" "/$place" "/$place"
    done
else
    root=$scratch/root
    mkdir "$root"
    overlay whole "$release" "$root"
    for place in dev proc sys; do
        mount --rbind "/$place" "$root/$place"
    done
    while [ $# -gt 0 ]; do
        if [ -d "$1" ]; then mkdir -p "$root$2"; else mkdir -p "$root${2%/*}" && touch -a "$root$2"; fi
        mount --bind "$1" "$root$2"
        shift 2
    done
    cd "$root"
    pivot_root . .
    umount --lazy .
fi
echo cluster >/proc/sys/kernel/hostname
ip link set lo up
ip address add 192.0.2.1/32 dev lo
mkdir -p /etc/wheeltapper /run/wheeltapper /var/lib/wheeltapper /var/spool/wheeltapper
printf '127.0.0.1 localhost cluster\\n' >/etc/hosts
echo ready
exec env --ignore-signal=CHLD cat
"""

_ENTERED = ("--mount", "--net", "--uts", "--ipc", "--pid")

_BIND = """
while [ "$1" != -- ]; do
    mount --rbind "$1" "$2" || exit 126
    shift 2
done
shift
exec "$@"
"""


@dataclass(frozen=True, slots=True)
class Place:
    """What one machine of the cluster sees: each source is mounted over its target, in this order."""

    binds: tuple[tuple[Path, Path], ...] = ()

    def command(self, argv: tuple[str, ...]) -> list[str]:
        """*argv*, run in this place; it replaces the shell that mounts, so the process id stays one."""
        if not self.binds:
            return list(argv)
        pairs = [str(path) for bind in self.binds for path in bind]
        return ["unshare", "--mount", "sh", "-c", _BIND, "sh", *pairs, "--", *argv]


EVERYWHERE = Place()


class Namespaces:
    """The namespaces of one cluster. ``pid`` is their process 1, as the machine sees it.

    *root* is the folder that is their root, None for the machine's own; then *lent* are the parts of the machine that
    show there as well, each with its place.
    """

    def __init__(
        self, scratch: Path, log: Path, root: Path | None = None, lent: tuple[tuple[Path, Path], ...] = ()
    ) -> None:
        self.scratch = scratch
        self.log = log
        self._root = [str(root or ""), *(str(path) for pair in lent for path in pair)]
        self.pid = 0
        self._holder: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Make the namespaces.

        Raises:
            ClusterError: the machine refused; the message holds its words.
        """
        self.scratch.mkdir(exist_ok=True)
        separate = ["unshare", "--pid", "--fork", "--mount-proc", "--mount", "--net", "--uts", "--ipc", "--kill-child"]
        with self.log.open("wb") as log:
            self._holder = subprocess.Popen(
                [*separate, "sh", "-c", _INIT, "sh", str(self.scratch), *self._root],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=ENVIRONMENT, start_new_session=True,
            )  # fmt: skip
        assert self._holder.stdout is not None
        if self._holder.stdout.readline() != b"ready\n":
            self.stop()
            raise ClusterError(f"the namespaces could not be made: {self.log.read_text().strip()}")
        self.pid = only_child(self._holder)

    def stop(self) -> None:
        """End every process inside; the mounts and the network go with the last of them."""
        if self._holder is None:
            return
        for pipe in (self._holder.stdin, self._holder.stdout):
            assert pipe is not None
            pipe.close()
        self._holder.wait()
        self._holder = None
        self.pid = 0

    def command(self, argv: tuple[str, ...], place: Place = EVERYWHERE, user: str | None = None) -> list[str]:
        """The command line that runs *argv* inside, in *place*, as *user* (root when None)."""
        if not self.pid:
            raise ClusterError("the cluster is not running")
        if user is not None:
            gid = pwd.getpwnam(user).pw_gid
            argv = ("setpriv", f"--reuid={user}", f"--regid={gid}", "--clear-groups", *argv)
        return ["nsenter", f"--target={self.pid}", *_ENTERED, *place.command(argv)]

    def wait_in_place(self, pid: int, place: Place, timeout: float = 5.0) -> None:
        """Wait until process *pid*, just started with :meth:`command`, has left the mounts that all here share.

        Until then, who ends "all that sees what this machine of the cluster sees" ends process 1 and the cluster too.

        Raises:
            ClusterError: it ended first, or was not there in *timeout* seconds.
        """
        if not place.binds:
            return
        mounts = Path(f"/proc/{self.pid}/ns/mnt").readlink()
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            try:
                if Path(f"/proc/{pid}/ns/mnt").readlink() != mounts:
                    return
            except OSError as error:
                raise ClusterError(f"process {pid} ended before it was in its place") from error
            time.sleep(0.002)
        raise ClusterError(f"process {pid} was not in its place within {timeout:g} s")


def only_child(parent: subprocess.Popen[bytes], timeout: float = 5.0) -> int:
    """The process id of *parent*'s one child, waited for up to *timeout* seconds.

    Raises:
        ClusterError: the parent ended or started nothing in that time.
    """
    deadline = time.monotonic() + timeout
    while parent.poll() is None and time.monotonic() < deadline:
        for status in processes.files("stat"):
            try:
                # The program's name, in parentheses, may hold spaces; after it come state and parent.
                fields = status.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == parent.pid:
                return int(status.parent.name)
        time.sleep(0.005)
    raise ClusterError(f"process {parent.pid} ended, or started nothing within {timeout:g} s")


def sharing(pid: int, kind: str) -> list[int]:
    """All processes, *pid* among them, that share its namespace of *kind* (``pid``, ``mnt``, ``net``)."""
    wanted = Path(f"/proc/{pid}/ns/{kind}").readlink()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        # A process that is ending, or already a zombie, has no namespace to read.
        with suppress(OSError):
            if (entry / "ns" / kind).readlink() == wanted:
                found.append(int(entry.name))
    return found
