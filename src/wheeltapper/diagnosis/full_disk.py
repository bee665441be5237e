"""Could a checkpoint not be written because the disk was full? Its own line mostly says only that writing failed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from wheeltapper.diagnosis.depth import FULL
from wheeltapper.evidence import Finding, Role, Source
from wheeltapper.labels import Label

CHECKPOINT = Label("software/checkpoint")
DISK = Label("resource/disk_full")
_WRITING = re.compile(r"Writer failed|failed writing|[Ww]rite failed")


def with_full_disks(told: Sequence[Finding]) -> list[Finding]:
    """Return *told*; a checkpoint whose writing failed is the full disk's where one was found."""
    full = next((each for each in told if each.signature.startswith(FULL) and each.label == DISK), None)
    if full is None:
        return list(told)
    where = full.fields.get("mount") or "a file system"
    summary = f"a checkpoint could not be written, and {where} is full ({full.evidence.where})"
    return [replace(each, label=DISK, summary=summary) if _failed_to_write(each) else each for each in told]


def _failed_to_write(finding: Finding) -> bool:
    seen = finding.evidence
    return (
        finding.label == CHECKPOINT
        and finding.role is Role.ROOT
        and seen.source is Source.JOB_LOG
        and bool(_WRITING.search(seen.text))
    )
