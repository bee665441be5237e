"""Did an earlier job leave processes or memory on a GPU that should be free?

Judged while no job is on the node, when nothing of its GPUs' memory should be in use; a job that ends has it looked at
anew. A warning: it is no fault of the hardware, but the next job runs out of memory there. The process ids are told, so
that they can be ended. Under Kubernetes, where the agent does not know which pods are jobs, only `wheeltapper
preflight` without an agent judges it.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from wheeltapper.checks.gpu.nvml import PROBE
from wheeltapper.checks.gpu.snapshot import Readings
from wheeltapper.checks.model import Check, Fault, Host
from wheeltapper.config import Section
from wheeltapper.evidence import Finding, Role

PROCESSES = Fault("gpu_leftovers", "software/oom", "processes of an earlier job are on the GPU", role=Role.CONFIRM)
MEMORY = Fault("gpu_leftovers", "software/oom", "memory of an idle GPU is in use", role=Role.CONFIRM)


class Limits(Section):
    """What an idle GPU may hold."""

    idle_memory_mb_max: int = Field(
        15, ge=0, description="Megabytes in use on an idle GPU, beyond what the driver reserves (facebook's gcm)."
    )


def judge(readings: Readings, host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each GPU with processes, or without any but with memory in use."""
    now = readings[-1]
    for gpu in now.value.having("use"):
        use = gpu.use
        if use is None:
            continue
        if use.pids:
            shown = ", ".join(map(str, use.pids[:5])) + (" and more" if len(use.pids) > 5 else "")
            text = f"On GPU {gpu.address} run processes ({shown}) that belong to no job there"
            yield PROCESSES.seen(host, now.at, text, detail=f"processes={len(use.pids)}", **gpu.named)
        elif use.is_idle and use.memory_mb > limits.idle_memory_mb_max:
            text = f"On GPU {gpu.address}, where nothing runs, {use.memory_mb} MB of memory are in use"
            yield MEMORY.seen(host, now.at, text, detail=f"memory={use.memory_mb}MB", **gpu.named)


CHECK = Check("gpu_leftovers", PROBE, judge, Limits, of_idle_nodes=True)
