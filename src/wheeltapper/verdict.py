"""What a preflight concludes for a node."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from wheeltapper.evidence import Finding


class State(str, Enum):
    """``unknown`` means that we could not look; it never keeps a job off."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A node's verdict; ``str()`` of it is the sentence that is logged and shown.

    ``checked_at`` is seconds since the Unix epoch, ``valid_for`` seconds from then.
    """

    node: str
    state: State
    checked_at: float
    valid_for: float
    boot_id: str
    findings: tuple[Finding, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        if self.state is State.OK:
            return f"{self.node} is fit for work"
        if not self.findings:
            return f"{self.node} is {self.state.value}: {self.note or 'no finding explains it'}"
        first = self.findings[0]
        gpu = f" on GPU {first.evidence.gpu}" if first.evidence.gpu else ""
        more = f" and {len(self.findings) - 1} more" if len(self.findings) > 1 else ""
        detail = f" {first.detail}" if first.detail else ""
        if not first.convicts:
            return f"{self.node} is {self.state.value}: {first.label}{gpu}: {first.evidence.text}{more}"
        return f"{self.node} is {self.state.value}: {first.label}{detail}{gpu} ({first.disposition.value}){more}"
