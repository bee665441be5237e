"""Was the GPU's memory used up, or only in pieces? PyTorch says how much it holds without using it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from wheeltapper.evidence import Finding
from wheeltapper.labels import Label

OOM = "cuda.oom"

SHARE = 0.1
"""Part of the GPU that must lie unused: a few blocks are left over in every allocator."""

_UNIT = {"KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40}
_SIZE = r"([\d.]+) ([KMGT]iB)"
_WANTED = re.compile(f"Tried to allocate {_SIZE}")
_TOTAL = re.compile(f"total capac?i?ty of {_SIZE}|{_SIZE} total capacity")
_UNUSED = re.compile(f"{_SIZE} is reserved by PyTorch but unallocated")
_ALLOCATED = re.compile(f"{_SIZE} already allocated")
_RESERVED = re.compile(f"{_SIZE} reserved in total")


def told_apart(told: Sequence[Finding]) -> list[Finding]:
    """Return *told*; an allocation that failed while enough lay reserved and unused is fragmentation."""
    return [_apart(each) if each.signature == OOM else each for each in told]


def _apart(finding: Finding) -> Finding:
    text = finding.evidence.text
    wanted, total, unused = _bytes(_WANTED, text), _bytes(_TOTAL, text), _bytes(_UNUSED, text)
    if unused is None:  # before PyTorch 2.1
        reserved, allocated = _bytes(_RESERVED, text), _bytes(_ALLOCATED, text)
        unused = reserved - allocated if reserved is not None and allocated is not None else None
    if wanted is None or total is None or unused is None or unused < wanted or unused < SHARE * total:
        return finding
    return replace(
        finding,
        label=Label("resource/gpu_memory_fragmentation"),
        summary="the GPU's memory is in pieces: enough is reserved, but not in one",
    )


def _bytes(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.search(text)
    if not found:
        return None
    number, unit = (part for part in found.groups() if part is not None)
    return float(number) * _UNIT[unit]
