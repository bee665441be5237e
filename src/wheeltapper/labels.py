"""The taxonomy: every label is ``family/kind``, and these are all of them."""

from __future__ import annotations

from typing import Final, NewType

Label = NewType("Label", str)

KINDS: Final[dict[str, tuple[str, ...]]] = {
    "hardware": (
        "gpu_xid", "gpu_lost", "ecc_uncorrectable", "ecc_remap", "nvlink", "pcie", "thermal", "power",
        "host_cpu", "host_memory", "storage", "nic", "node_down",
    ),
    "software": (
        "oom", "env_mismatch", "framework_crash", "user_code", "cuda_fault", "dataloader", "deadlock",
        "checkpoint", "config",
    ),
    "network": (
        "nccl_timeout", "link_down", "link_errors", "transport", "socket", "rendezvous", "dns",
        "remote_storage", "congestion", "topology",
    ),
    "resource": (
        "cpu_throttle", "host_oom", "shm", "disk_full", "fd_limit", "pids_limit", "memlock",
        "gpu_memory_fragmentation", "shared_fs_io", "memory_bandwidth", "pcie_bandwidth",
    ),
    "scheduler": ("time_limit", "preempted", "evicted", "cancelled", "quota", "maintenance"),
    "unknown": ("unknown",),
}  # fmt: skip

ALL: Final[frozenset[str]] = frozenset(f"{family}/{kind}" for family, kinds in KINDS.items() for kind in kinds)

UNKNOWN: Final = Label("unknown/unknown")

TRANSIENT: Final[frozenset[str]] = frozenset(
    {f"network/{kind}" for kind in KINDS["network"]}
    | {
        "resource/cpu_throttle",
        "resource/shared_fs_io",
        "resource/memory_bandwidth",
        "resource/pcie_bandwidth",
    }
)
"""Network and resource labels that the same job may well not meet again; the rest ask the user to change something."""


def label(text: str) -> Label:
    """Return *text* as a label, or raise ``ValueError`` when the taxonomy has no such label."""
    if text not in ALL:
        raise ValueError(f"{text!r} is not a label of the taxonomy; labels look like 'hardware/gpu_xid'")
    return Label(text)


def family(of: Label) -> str:
    """The part before the slash."""
    return of.partition("/")[0]


def is_fault(of: str) -> bool:
    """True for an end that was neither the job's own doing nor the scheduler's: what a mean time to failure counts."""
    return of.partition("/")[0] not in {"software", "scheduler"}
