"""Short ways to make the frozen records that tests need."""

from __future__ import annotations

from typing import Any

from wheeltapper.attempt import Attempt, Ending
from wheeltapper.diagnosis.model import Diagnosis, Suspect
from wheeltapper.evidence import Disposition, Evidence, Finding, Role, Source
from wheeltapper.labels import label

BOOT = "11111111-2222-3333-4444-555555555555"


def xid79(node: str = "n2", *, sequence: int = 7, at: float = 1000.0, gpu: str = "0000:3b:00") -> Finding:
    """A GPU that fell off the bus, as the kernel of *node* says it."""
    return Finding(
        "nvidia.xid.79",
        label("hardware/gpu_xid"),
        Role.ROOT,
        Disposition.REBOOT,
        Evidence(
            Source.KERNEL,
            "NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.",
            at=at,
            node=node,
            boot_id=BOOT,
            sequence=sequence,
            gpu=gpu,
        ),
        detail="xid=79",
    )


def logged(name: str, text: str = "something went wrong", *, role: Role = Role.ROOT, line: int = 34) -> Finding:
    """A finding of label *name* in a job's log."""
    return Finding(
        name.replace("/", "."),
        label(name),
        role,
        Disposition.NONE,
        Evidence(Source.JOB_LOG, text, node="n1", file="/home/u/slurm-12.out", line=line, offset=900),
    )


def attempt(**changes: Any) -> Attempt:
    """A batch job that failed on two nodes."""
    values: dict[str, Any] = {
        "key": "12@900",
        "job": "12",
        "nodes": ("n1", "n2"),
        "ending": Ending.FAILED,
        "exit_code": 1,
        "start": 900.0,
        "end": 1100.0,
        "batch_host": "n1",
    }
    return Attempt(**{**values, **changes})


def diagnosis(name: str, *findings: Finding, nodes: tuple[str, ...] = (), confirmed: bool = False) -> Diagnosis:
    """A diagnosis of label *name* that suspects *nodes*."""
    return Diagnosis(
        label=label(name),
        detail=findings[0].detail if findings else "",
        confirmed=confirmed,
        chain=findings,
        suspects=tuple(Suspect(node=node) for node in nodes),
        sentence=f"{name} it was.",
    )
