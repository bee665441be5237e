"""Evidence as the scanners really make it: from lines of kernels and logs."""

from __future__ import annotations

import io
from datetime import timezone

from wheeltapper import catalogue
from wheeltapper.evidence import Finding, Source
from wheeltapper.kmsg import parse_record
from wheeltapper.scan import scan_kernel, scan_log

CATALOGUE = catalogue.load()

END = 10_000.0
"""When the attempts of these tests ended."""

WATCHDOG = (
    "[rank{rank}]:[E] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, "
    "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds before timing out."
)


def kernel(text: str, *, node: str = "n2", at: float = END - 60, boot: str = "b", sequence: int = 1) -> list[Finding]:
    """What the kernel of *node* says with the line *text*."""
    record = parse_record(f"3,{sequence},1,-;{text}")
    assert record is not None
    return list(scan_kernel(record, CATALOGUE, node=node, boot_id=boot, at=at))


def xid(code: int, gpu: str = "0000:3b:00", **more) -> list[Finding]:
    return kernel(f"NVRM: Xid (PCI:{gpu}): {code}, pid=7, name=python, words", **more)


def log(*lines: str, file: str = "slurm-12.out", node: str = "n1", source: Source = Source.JOB_LOG) -> list[Finding]:
    """What a job's log with these *lines* says, read on *node*."""
    data = "".join(f"{line}\n" for line in lines).encode()
    return list(scan_log(io.BytesIO(data), CATALOGUE, file=file, node=node, source=source, zone=timezone.utc))


def watchdog(*ranks: int) -> list[str]:
    return [WATCHDOG.format(rank=rank) for rank in ranks]
