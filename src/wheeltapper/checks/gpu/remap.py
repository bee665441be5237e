"""Has a GPU run out of spare memory rows, or does a remapped row wait for a reset?

A remapping that failed convicts: the GPU must be replaced once the field diagnostic agrees. A row that waits for a
reset convicts only a GPU on which nothing runs, so that it is reset before the next job. On a busy GPU it is a warning
that says "reset when idle": work may go on, and to stop a job for it would cost more than it saves. How many rows were
remapped before is no fault. GPUs that are split into MIG instances do not tell, and are passed over.

Source: NVIDIA's guide to GPU memory errors (A100 and later).
"""

from __future__ import annotations

from collections.abc import Iterator

from wheeltapper import gpu_state
from wheeltapper.checks.gpu.nvml import PROBE
from wheeltapper.checks.gpu.snapshot import Readings
from wheeltapper.checks.model import Check, Fault, Host, NoLimits, NotApplicable
from wheeltapper.evidence import Finding, Role

FAILED = Fault("gpu_remap", *gpu_state.REMAP_FAILED)
PENDING = Fault("gpu_remap", *gpu_state.REMAP_PENDING)
LATER = Fault("gpu_remap", PENDING.label, f"{PENDING.summary}: reset the GPU when it is idle", role=Role.CONFIRM)


def judge(readings: Readings, host: Host, _limits: NoLimits) -> Iterator[Finding]:
    """Yield each GPU with one of the flags.

    Raises:
        NotApplicable, ValueError: no GPU tells of its rows.
    """
    now = readings[-1]
    if now.value.gpus and all(each.has_mig for each in now.value.gpus):
        raise NotApplicable("every GPU is split into MIG instances, and does not tell of its rows")
    for gpu in now.value.having("rows"):
        if gpu.rows is None:
            continue
        if gpu.rows.failed:
            text = f"GPU {gpu.address} could not remap a row: its spare rows are used up"
            yield FAILED.seen(host, now.at, text, detail="remap=failed", **gpu.named)
        elif gpu.rows.pending:
            fault, when = (PENDING, "now: nothing runs on it") if gpu.is_idle else (LATER, "when it is idle")
            text = f"GPU {gpu.address} has a remapped row that waits for a reset; reset it {when}"
            yield fault.seen(host, now.at, text, detail="remap=pending", **gpu.named)


CHECK = Check("gpu_remap", PROBE, judge)
