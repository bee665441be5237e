"""Evidence is one raw observation; a finding is a signature of the catalogue that matched it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import Enum

from wheeltapper.labels import Label

EXCERPT_CHARS = 400
"""Evidence text is cut here: enough for the longest watchdog line, small enough for a ledger of a million rows."""


class Source(str, Enum):
    """Where an observation comes from. A kernel line is proof; the same words in a job's log are hearsay.

    ``record`` is what the ledger has seen before: numbers, and no observation of this end.
    """

    KERNEL = "kernel"
    JOB_LOG = "job_log"
    SCHEDULER = "scheduler"
    CHECK = "check"
    RECORD = "record"


class Role(str, Enum):
    """What a signature is in the story of a failure."""

    ROOT = "root"
    SYMPTOM = "symptom"
    CASCADE = "cascade"
    CONFIRM = "confirm"
    BENIGN = "benign"


class Disposition(str, Enum):
    """What a finding asks for; separate from its label."""

    NONE = "none"
    RESTART_APP = "restart_app"
    RESET_GPU = "reset_gpu"
    REBOOT = "reboot"
    INSPECT = "inspect"
    REPLACE = "replace"

    @property
    def convicts(self) -> bool:
        """True when the machine must leave service before anything else runs on it."""
        return self in {Disposition.RESET_GPU, Disposition.REBOOT, Disposition.INSPECT, Disposition.REPLACE}


@dataclass(frozen=True, slots=True)
class Evidence:
    """One raw observation, bound to where and when it was made.

    ``at`` is seconds since the Unix epoch; ``line`` counts from 1 and ends at LF only; ``offset`` is the byte
    at which the line starts; ``sequence`` is the kernel log's own record number. ``gpu`` is a PCI address as
    :func:`pci_address` writes it, never an index: indices shift when a GPU is lost.
    """

    source: Source
    text: str
    at: float | None = None
    node: str | None = None
    boot_id: str | None = None
    sequence: int | None = None
    gpu: str | None = None
    gpu_uuid: str | None = None
    rank: int | None = None
    file: str | None = None
    line: int | None = None
    offset: int | None = None

    @property
    def where(self) -> str:
        """``file:line`` for a log, ``node kernel log`` for a kernel line; for people."""
        if self.file is not None:
            return f"{self.file}:{self.line}" if self.line else self.file
        if self.source is Source.KERNEL:
            return f"{self.node or 'node'} kernel log"
        return self.node or self.source.value


@dataclass(frozen=True, slots=True)
class Finding:
    """A signature that matched, with its evidence.

    ``detail`` is the machine-readable tail of the label (``xid=79``), ``summary`` the catalogue's words for it.
    """

    signature: str
    label: Label
    role: Role
    disposition: Disposition
    evidence: Evidence
    detail: str = ""
    summary: str = ""
    fields: dict[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The identity of a node-side finding over restarts: boot id and kernel sequence number, else its device."""
        seen = self.evidence
        if seen.sequence is not None:
            return f"{seen.boot_id}:{seen.sequence}"
        return f"{seen.boot_id}:{self.signature}:{seen.gpu or self.fields.get('device', '')}"

    @property
    def convicts(self) -> bool:
        """True for positive hardware evidence from the node itself: the only thing that may take a node out."""
        return (
            self.role is Role.ROOT
            and self.disposition.convicts
            and self.label.startswith("hardware/")
            and self.evidence.source in {Source.KERNEL, Source.CHECK}
        )


_PCI = re.compile(r"^(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?$")


def pci_address(text: str) -> str | None:
    """Return *text* as ``dddd:bb:dd`` in lower case (no function), or None when it is no PCI address.

    >>> pci_address("00000000:3B:00.0")
    '0000:3b:00'
    """
    found = _PCI.match(text.strip())
    if not found:
        return None
    domain, bus, device = found.groups()
    return f"{int(domain or '0', 16):04x}:{bus.lower()}:{device.lower()}"
