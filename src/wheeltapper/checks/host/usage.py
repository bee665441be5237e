"""How full the file systems are, and how long each takes to say so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from wheeltapper.checks import calls
from wheeltapper.checks.calls import Usage
from wheeltapper.checks.host import mounts
from wheeltapper.checks.host.mounts import Mount
from wheeltapper.checks.model import Host, Probe

PATIENCE_S = 8.0
"""A server that takes longer to answer one call keeps jobs waiting for every file."""

OTHERS = ("/boot", "/run/", "/var/lib/kubelet/")
"""Where jobs never write, or only one pod does: that a pod's volume is full is no news of the node."""

SHM = "/dev/shm"  # noqa: S108 - the place itself is what is looked at


@dataclass(frozen=True, slots=True)
class FileSystem:
    """A mounted file system; ``usage`` is None when it did not answer within PATIENCE_S."""

    mount: Mount
    usage: Usage | None

    @property
    def is_of_network(self) -> bool:
        """True when its files lie elsewhere."""
        return self.mount.kind in mounts.NETWORK


def read(host: Host) -> Mapping[str, FileSystem]:
    """Return by mount point the file systems on the machine's own drives and on the network, the root and /dev/shm.

    Raises:
        NotApplicable: this kernel tells no mounts.
        OSError: mounts cannot be read.
    """
    told = mounts.read(host).mounted
    wanted: dict[str, Mount] = {}
    for point in sorted(told, key=len):
        mount = told[point]
        if point in {"/", SHM} or _is_wanted(mount, wanted.values()):
            wanted[point] = mount
    places = {point: host.root / point.lstrip("/") for point in wanted}
    asked = calls.usages(places.values(), PATIENCE_S)
    return {point: FileSystem(wanted[point], asked[path]) for point, path in places.items() if path in asked}


def _is_wanted(mount: Mount, known: Iterable[Mount]) -> bool:
    """Return whether *mount* is looked at: one place of each file system is enough."""
    if mount.point.startswith(OTHERS) or any(mount.number == each.number for each in known):
        return False
    return mount.is_on_disk or mount.kind in mounts.NETWORK


PROBE = Probe("file_systems", read, deadline_s=PATIENCE_S + 2.0, may_hang=True, keep_s=300.0)
