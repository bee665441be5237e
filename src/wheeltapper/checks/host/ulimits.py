"""Do the limits of the scheduler's daemon leave room for jobs?

What slurmd may not have, no job of it can have. Looked at are its open files, and on machines with InfiniBand or RoCE
how much memory may be locked, which their transports need without limit. Where no slurmd runs nothing is checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from wheeltapper.checks import processes
from wheeltapper.checks.files import entries
from wheeltapper.checks.model import Check, Fault, Host, NotApplicable, Probe, Reading
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

FEW_FILES = Fault("ulimits", "resource/fd_limit", "slurmd's limit of open files is too low for jobs")
LITTLE_LOCKED = Fault("ulimits", "resource/memlock", "slurmd's limit of locked memory is too low for the network")

UNLIMITED = 1 << 63

_LINE = re.compile(r"^(Max [a-z ]+?)\s{2,}(unlimited|\d+)\s+(unlimited|\d+)")

DAEMON = "slurmd"


class Limits(Section):
    """What jobs need."""

    open_files: int = Field(
        4096, ge=1, description="The hard limit. 1024, an old default, is less than NCCL opens on a few hundred ranks."
    )
    locked_gib: float = Field(
        64.0, ge=0, strict=False, description="GiB that may be locked; Slurm's own unit sets no limit. Ours."
    )


def read(host: Host) -> Mapping[str, int]:
    """Return the hard limits of the oldest slurmd on *host* that matter here.

    Raises:
        NotApplicable: none runs.
        OSError: processes cannot be listed, or its limits cannot be read.
    """
    daemons = [each for each in processes.every(host) if each.comm == DAEMON]
    if not daemons:
        raise NotApplicable("no slurmd runs here")
    daemon = min(daemons, key=lambda each: (each.began, each.pid))
    told = (host.procfs / str(daemon.pid) / "limits").read_text(encoding="ascii")
    matched = filter(None, map(_LINE.match, told.splitlines()))
    hard = {found[1]: UNLIMITED if found[3] == "unlimited" else int(found[3]) for found in matched}
    limits = {"open files": hard.get("Max open files", UNLIMITED)}
    if entries(host.sysfs / "class/infiniband"):
        limits["locked memory"] = hard.get("Max locked memory", UNLIMITED)
    return limits


def judge(readings: Sequence[Reading[Mapping[str, int]]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each limit that is too low."""
    now = readings[-1]
    files, locked = now.value["open files"], now.value.get("locked memory", UNLIMITED)
    if files < limits.open_files:
        text = f"slurmd may open {files} files, and so may each of its jobs"
        yield FEW_FILES.seen(host, now.at, text, detail=f"open_files={files}", device="open files")
    if locked < limits.locked_gib * (1 << 30):
        text = f"slurmd may lock {locked} bytes of memory, and so may each of its jobs"
        yield LITTLE_LOCKED.seen(host, now.at, text, detail=f"locked={locked}", device="locked memory")


PROBE = Probe("ulimits", read, every_s=300.0)
CHECK = Check("ulimits", PROBE, judge, Limits)
