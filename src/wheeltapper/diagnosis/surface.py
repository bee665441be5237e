"""What a cause looks like at first sight, where its own line is all that people see of it."""

from __future__ import annotations

from wheeltapper.evidence import Finding, Source
from wheeltapper.labels import Label, family

SURFACES = {
    "resource/gpu_memory_fragmentation": Label("software/oom"),  # PyTorch says "out of memory" of both
}


def surface(root: Finding) -> Label | None:
    """Return the label that the line of *root* seems to say; None when it seems what it is."""
    if family(root.label) == "software" and root.evidence.source is Source.KERNEL and root.evidence.gpu:
        return Label("hardware/gpu_xid")  # the program's own fault, told by the driver of a GPU
    return SURFACES.get(root.label)
