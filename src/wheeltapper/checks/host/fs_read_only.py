"""Has a file system on a drive of this machine stopped taking writes?

After an error the kernel makes the file system read-only and leaves its mounts writable; that difference convicts,
because only a broken drive, or a file system that it broke, brings it about. A mount that somebody has made read-only
against `/etc/fstab` is told as a warning. Loops, images and file systems of a network are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wheeltapper.checks.host.mounts import PROBE, Mounts
from wheeltapper.checks.model import Check, Fault, Host, NoLimits, Reading
from wheeltapper.evidence import Disposition, Finding

STOPPED = Fault(
    "fs_read_only", "hardware/storage", "the kernel made a file system read-only after an error", Disposition.INSPECT
)
UNWANTED = Fault("fs_read_only", "hardware/storage", "a file system is read-only against fstab")


def judge(readings: Sequence[Reading[Mounts]], host: Host, _limits: NoLimits) -> Iterator[Finding]:
    """Yield each file system that cannot be written to, and should be."""
    now = readings[-1]
    told: set[str] = set()
    for point, mount in now.value.mounted.items():
        if not mount.is_on_disk or mount.number in told:
            continue
        detail = f"device={mount.source} mount={point}"
        if mount.is_stopped:
            told.add(mount.number)
            text = f"{mount.source} on {point} is read-only, though it is mounted to be written to"
            yield STOPPED.seen(host, now.at, text, detail=detail, device=mount.source)
        elif mount.read_only and point in now.value.writable:
            text = f"{point} is mounted read-only, and fstab wants it writable"
            yield UNWANTED.seen(host, now.at, text, detail=detail, device=mount.source)


CHECK = Check("fs_read_only", PROBE, judge)
