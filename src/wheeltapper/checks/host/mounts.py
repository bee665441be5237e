"""What is mounted, and what ``/etc/fstab`` says should be."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from wheeltapper.checks.files import lines
from wheeltapper.checks.model import Host, NotApplicable, Probe

NETWORK = frozenset(
    {
        "nfs", "nfs4", "lustre", "gpfs", "wekafs", "beegfs", "ceph", "fuse.ceph", "fuse.ceph-fuse", "cifs", "smb3",
        "fuse.glusterfs", "panfs", "pvfs2", "fuse.dfuse", "fuse.juicefs", "afs",
    }
)  # fmt: skip
"""Types of file systems whose files lie elsewhere."""

DISK = frozenset({"ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "zfs", "bcachefs"})
"""Types of file systems on a drive of the machine's own that are meant to be written to."""

_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """A mounted file system: ``read_only`` is the mount, ``is_stopped`` the file system below a mount that is not.

    The kernel makes a file system read-only after an error, and leaves its mounts as they were.
    """

    point: str
    kind: str
    source: str
    number: str
    read_only: bool
    is_stopped: bool

    @property
    def is_on_disk(self) -> bool:
        """True for a drive of the machine's own; loops and what can be taken out are none."""
        away = self.source.startswith(("/dev/loop", "/dev/sr", "/dev/fd"))
        return self.kind in DISK and not away


@dataclass(frozen=True, slots=True)
class Mounts:
    """What is mounted, the last of each place on top, and which places fstab wants to be writable."""

    mounted: Mapping[str, Mount]
    writable: frozenset[str] = field(default_factory=frozenset)


def read(host: Host) -> Mounts:
    """Return the mounts of *host* as its first process sees them: services may have a view of their own.

    Raises:
        NotApplicable: this kernel tells no mounts.
        OSError: they cannot be read.
        ValueError: nothing is mounted, which cannot be.
    """
    try:
        told = (host.procfs / "1/mountinfo").read_text(encoding="utf-8", errors="replace")
    except PermissionError:
        told = (host.procfs / "self/mountinfo").read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError as error:
        raise NotApplicable("this kernel tells no mounts") from error
    mounted = {each.point: each for line in told.splitlines() if (each := _mount(line))}
    if not mounted:
        raise ValueError("no mount can be read")
    return Mounts(mounted, _writable(host.root / "etc/fstab"))


def _mount(line: str) -> Mount | None:
    own, _, below = line.partition(" - ")
    words, more = own.split(), below.split()
    if len(words) < 6 or len(more) < 3:
        return None
    mount, whole = set(words[5].split(",")), set(more[2].split(","))
    stopped = "rw" in mount and bool(whole & {"ro", "emergency_ro", "shutdown"})
    return Mount(_plain(words[4]), more[0], _plain(more[1]), words[2], "ro" in mount, stopped)


def _plain(text: str) -> str:
    """Return *text* without the octal escapes for blanks."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)


def _writable(fstab: Path) -> frozenset[str]:
    wanted = set()
    for line in lines(fstab):
        words = line.partition("#")[0].split()
        if len(words) >= 4 and words[1].startswith("/") and not {"ro", "noauto"} & set(words[3].split(",")):
            wanted.add(_plain(words[1]))
    return frozenset(wanted)


PROBE = Probe("mounts", read)
