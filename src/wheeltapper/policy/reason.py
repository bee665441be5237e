"""The grammar of a node's reason: code first, then where, whose job and when, then what to do; under 200 characters.

``wheeltapper: hardware/gpu_xid xid=79 gpu=0000:3b:00 job=1234 at=2026-11-29T12:01:03Z: reboot``

The prefix is how we recognise our own work: a reason without it belongs to a person and is never touched.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone

from wheeltapper.evidence import Disposition, Finding

PREFIX = "wheeltapper: "
MAX_CHARS = 200

TO_DO: dict[Disposition, str] = {
    Disposition.NONE: "nothing to do",
    Disposition.RESTART_APP: "restart the job",
    Disposition.RESET_GPU: "reset the GPU",
    Disposition.REBOOT: "reboot",
    Disposition.INSPECT: "inspect",
    Disposition.REPLACE: "replace",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason of ours, taken apart."""

    label: str
    detail: str
    gpu: str | None
    job: str | None
    at: str
    to_do: str


_SHAPE = re.compile(
    r"^wheeltapper: (?P<label>[a-z]+/[a-z_]+)(?P<detail>(?: (?!gpu=|job=|at=)\S+)*)"
    r"(?: gpu=(?P<gpu>\S+))?(?: job=(?P<job>\S+))? at=(?P<at>\S+Z): (?P<to_do>.+)$"
)


def format_reason(finding: Finding, job: str | None, now: float, more: str = "") -> str:
    """Return the reason for taking a node out on *finding*; *now* (Unix seconds) stands in for an unknown time.

    *more* is what follows the words that say what to do.
    """
    seen = finding.evidence
    at = datetime.fromtimestamp(seen.at if seen.at is not None else now, tz=timezone.utc)
    parts = [finding.label, finding.detail]
    parts += [f"gpu={seen.gpu}"] if seen.gpu else []
    parts += [f"job={job}"] if job else []
    tail = f" at={at:%Y-%m-%dT%H:%M:%SZ}: {TO_DO[finding.disposition]}{more}"
    head = " ".join(part for part in parts if part)
    return PREFIX + head[: MAX_CHARS - len(PREFIX) - len(tail) - 1] + tail


def parse_reason(text: str) -> Reason | None:
    """Return the parts of a reason that :func:`format_reason` wrote; None for anybody else's."""
    found = _SHAPE.match(text.strip())
    if not found:
        return None
    parts = found.groupdict()
    return Reason(parts["label"], parts["detail"].strip(), parts["gpu"], parts["job"], parts["at"], parts["to_do"])


def is_ours(text: str) -> bool:
    """True for a reason that this product wrote."""
    return text.startswith(PREFIX)
