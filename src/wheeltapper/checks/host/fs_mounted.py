"""Is everything mounted that jobs need?

The site names the places in `checks.limits.fs_mounted.points`; without any, nothing is checked. A folder that should
be a mount and is not holds an empty disk of the node, and jobs fail on files that they do not find.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field

from wheeltapper.checks.host.mounts import PROBE, Mounts
from wheeltapper.checks.model import Check, Fault, Host, Reading
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

MISSING = Fault("fs_mounted", "network/remote_storage", "a file system that jobs need is not mounted")


class Limits(Section):
    """What must be mounted."""

    points: tuple[str, ...] = Field(
        (), strict=False, description="Mount points that must be there, such as /scratch. None unless the site says so."
    )


def judge(readings: Sequence[Reading[Mounts]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each place where nothing is mounted."""
    now = readings[-1]
    for point in limits.points:
        if (point.rstrip("/") or "/") not in now.value.mounted:
            text = f"nothing is mounted on {point}"
            yield MISSING.seen(host, now.at, text, detail=f"mount={point}", device=point)


CHECK = Check("fs_mounted", PROBE, judge, Limits)
