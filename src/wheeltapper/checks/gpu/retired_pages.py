"""Does a retired page of an older GPU wait for a reset, or are its pages nearly used up? (GPUs before Ampere.)

A page that waits convicts only a GPU on which nothing runs; on a busy one it is a warning: "reset when idle". A GPU may
retire 64 pages in its life; from 62 on it is a warning, since NVIDIA replaces it only when the field diagnostic agrees.

Source: NVIDIA's guide to dynamic page retirement; 62 is Azure's limit, DCGM fails at 63.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from wheeltapper import gpu_state
from wheeltapper.checks.gpu.nvml import PROBE
from wheeltapper.checks.gpu.snapshot import Readings
from wheeltapper.checks.model import Check, Fault, Host
from wheeltapper.config import Section
from wheeltapper.evidence import Disposition, Finding, Role

PENDING = Fault(
    "gpu_retired_pages", gpu_state.REMAP_PENDING.label, "a retired page waits for a reset", Disposition.RESET_GPU
)
LATER = Fault(
    "gpu_retired_pages", PENDING.label, f"{PENDING.summary}: reset the GPU when it is idle", role=Role.CONFIRM
)
MANY = Fault(
    "gpu_retired_pages", PENDING.label, "a GPU has retired nearly all the pages that it may", role=Role.CONFIRM
)


class Limits(Section):
    """How many retired pages are too many."""

    pages_max: int = Field(61, ge=0, description="Retired pages that are let pass; 64 is the end (Azure warns at 62).")


def judge(readings: Readings, host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each GPU with a page that waits, or with too many."""
    now = readings[-1]
    for gpu in now.value.having("pages"):
        if gpu.pages is None:
            continue
        if gpu.pages.pending:
            fault, when = (PENDING, "now: nothing runs on it") if gpu.is_idle else (LATER, "when it is idle")
            text = f"GPU {gpu.address} has a retired page that waits for a reset; reset it {when}"
            yield fault.seen(host, now.at, text, detail="retirement=pending", **gpu.named)
        elif gpu.pages.retired > limits.pages_max:
            text = f"GPU {gpu.address} has retired {gpu.pages.retired} of 64 pages"
            yield MANY.seen(host, now.at, text, detail=f"retired={gpu.pages.retired}", **gpu.named)


CHECK = Check("gpu_retired_pages", PROBE, judge, Limits)
