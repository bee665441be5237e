"""What Slurm's words for states mean. Source: the manual pages of sacct and scontrol."""

from __future__ import annotations

import re
from collections.abc import Mapping

from wheeltapper.attempt import Ending
from wheeltapper.evidence import Disposition, Role
from wheeltapper.inputs.model import Rule
from wheeltapper.scan.clock import time_of

STATES: Mapping[str, Ending] = {
    "COMPLETED": Ending.COMPLETED,
    "FAILED": Ending.FAILED,
    "TIMEOUT": Ending.TIME_LIMIT,
    "DEADLINE": Ending.TIME_LIMIT,
    "CANCELLED": Ending.CANCELLED,
    "PREEMPTED": Ending.PREEMPTED,
    "NODE_FAIL": Ending.NODE_FAIL,
    "OUT_OF_MEMORY": Ending.OUT_OF_MEMORY,
    "BOOT_FAIL": Ending.LAUNCH_FAILED,
    "LAUNCH_FAILED": Ending.LAUNCH_FAILED,
    "REQUEUED": Ending.REQUEUED,
}
_OFFSET = re.compile(r"T[\d:]+(?:Z|[+-]\d\d:?\d\d)$")
UNFINISHED = frozenset({"RUNNING", "PENDING", "SUSPENDED", "COMPLETING", "CONFIGURING", "RESIZING"})

ENDINGS: Mapping[Ending, Rule] = {
    Ending.TIME_LIMIT: Rule("ending.time_limit", "scheduler/time_limit", "Slurm says that the time limit was reached"),
    Ending.CANCELLED: Rule("ending.cancelled", "scheduler/cancelled", "Slurm says that the job was cancelled"),
    Ending.PREEMPTED: Rule("ending.preempted", "scheduler/preempted", "Slurm says that the job was preempted"),
    Ending.NODE_FAIL: Rule("ending.node_fail", "hardware/node_down", "Slurm says that a node of the job failed"),
    Ending.OUT_OF_MEMORY: Rule("ending.out_of_memory", "resource/host_oom", "Slurm counts the job as out of memory"),
    Ending.FAILED: Rule(
        "ending.failed", "unknown/unknown", "Slurm says that the job failed, and not why", Role.SYMPTOM
    ),
}
"""The words for an end: a cause each, but for FAILED, which says that there is one."""

REASONS: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (
        re.compile(r"(?:Assoc|QOS|Account)\w*(?:Limit|Usage|Mins|Minutes|GRES)\b|AssocGrp|QOSGrp"),
        Rule("ending.quota", "scheduler/quota", "Slurm names a limit of the account or QOS"),
    ),
)
"""Reasons of a job's state that explain its end better than the state."""

MAINTENANCE = Rule("slurm.maintenance", "scheduler/maintenance", "the node was taken down for planned maintenance")
NODE_DOWN = Rule("slurm.node_down", "hardware/node_down", "Slurm counts the node as down")


NODE_REASONS: tuple[tuple[re.Pattern[str], Rule], ...] = (
    (
        re.compile(r"gres/gpu count (?:reported lower than configured|too low)"),
        Rule(
            "slurm.gpus_missing", "hardware/gpu_lost", "the node has fewer GPUs than Slurm expects", Role.ROOT,
            Disposition.REBOOT,
        ),
    ),
    (
        re.compile(r"Low RealMemory"),
        Rule(
            "slurm.memory_missing", "hardware/host_memory", "the node has less memory than Slurm expects", Role.ROOT,
            Disposition.INSPECT,
        ),
    ),
    (
        re.compile(r"Kill task failed"),
        Rule("slurm.kill_failed", "resource/shared_fs_io", "processes of the job could not be killed", Role.CONFIRM),
    ),
)  # fmt: skip
"""Reasons that slurmctld and slurmd themselves give a node (node_mgr.c, slurmstepd's UnkillableStepTimeout)."""


def ending(state: str) -> Ending | None:
    """Return the ending that *state* (``CANCELLED by 1000``, ``NODE_FAIL``) stands for; None while it has none."""
    word = state.split(" ", maxsplit=1)[0].rstrip("+*").upper()
    if word in UNFINISHED:
        return None
    if word in STATES:
        return STATES[word]
    whole = [known for known in STATES if word and known.startswith(word)]  # sacct cuts words at a column's width
    return STATES[whole[0]] if len(whole) == 1 else Ending.UNKNOWN


def nodes(text: str) -> tuple[str, ...]:
    """Return the nodes in Slurm's compressed list *text*; none for a list that is empty or cut."""
    if not text or text in {"None", "None assigned", "(null)"} or text.endswith("+"):
        return ()
    from ClusterShell.NodeSet import NodeSet, NodeSetException  # noqa: PLC0415 - 10 ms, and only records name nodes

    try:
        return tuple(NodeSet(text))
    except NodeSetException:
        return ()


def exact_time(text: str) -> float | None:
    """Return the moment *text* when it names its offset; Slurm leaves it out, and a guessed zone would mislead."""
    return time_of(text, None) if _OFFSET.search(text) else None
