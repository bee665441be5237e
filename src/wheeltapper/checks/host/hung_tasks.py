"""Does a program hang in the kernel, where no signal reaches it?

A task that waits for a disk, a file server or a GPU is in state D for moments. One that is found there again and again
for five minutes hangs, and what it waits for has gone away. The kernel's own threads are left out. A warning that
names the program: what it waits for is for the kernel log and the other checks to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field

from wheeltapper.checks import processes
from wheeltapper.checks.model import Check, Fault, Host, NotApplicable, Probe, Reading
from wheeltapper.config import Section
from wheeltapper.evidence import Finding, Role

HUNG = Fault("hung_tasks", "resource/shared_fs_io", "programs hang in the kernel", role=Role.SYMPTOM)

Task = tuple[int, int, str]
"""Process id, clock tick of its begin, name."""

NAMED_MAX = 5


class Limits(Section):
    """When a program counts as hung."""

    hung_s: float = Field(
        300.0,
        gt=0,
        strict=False,
        description="Seconds in state D at every look (gcm waits as long; gpud for five looks, a minute apart).",
    )
    looks: int = Field(4, ge=2, description="Looks that must have found it so: between two it may have run.")


def read(host: Host) -> frozenset[Task]:
    """Return the programs of *host* that wait in the kernel now.

    Raises:
        NotApplicable: this machine shows no processes.
        OSError: they cannot be listed.
    """
    try:
        found = list(processes.every(host))
    except FileNotFoundError as error:
        raise NotApplicable("this machine shows no processes") from error
    return frozenset((each.pid, each.began, each.comm) for each in found if each.state == "D" and not each.is_kernel)


def judge(readings: Sequence[Reading[frozenset[Task]]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield a finding that names the programs that were found waiting at every look."""
    now = readings[-1]
    recent = [each for each in readings if now.at - each.at <= limits.hung_s]
    if now.at - readings[0].at < limits.hung_s or len(recent) < limits.looks:
        return
    hung = sorted(frozenset.intersection(*(each.value for each in recent)))
    if hung:
        names = ", ".join(f"{comm} ({pid})" for pid, _, comm in hung[:NAMED_MAX])
        more = f" and {len(hung) - NAMED_MAX} more" if len(hung) > NAMED_MAX else ""
        text = f"{len(hung)} programs have hung in the kernel for {limits.hung_s / 60:.0f} minutes: {names}{more}"
        yield HUNG.seen(host, now.at, text, detail=f"hung={len(hung)}")


PROBE = Probe("waiting_tasks", read, keep_s=600.0)
CHECK = Check("hung_tasks", PROBE, judge, Limits)
