"""From a device plugin's name for a GPU to its PCI address, by which evidence is bound to GPUs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from wheeltapper.evidence import pci_address

_UUID = re.compile(r"^GPU UUID:\s*(GPU-\S+)", re.MULTILINE)

_REPLICA = re.compile(r"::\d+$")
"""What NVIDIA's device plugin appends where several pods share a GPU."""


def addresses(ids: Iterable[str], known: dict[str, str]) -> frozenset[str] | None:
    """Return the PCI addresses of the GPUs *ids*; None when one is not known, and so any GPU may be meant.

    *known* are the node's GPUs by UUID. An id that is a PCI address itself stands for it.

    >>> sorted(addresses(["GPU-a::1", "00000000:86:00.0"], {"GPU-a": "0000:3b:00"}))
    ['0000:3b:00', '0000:86:00']
    """
    found = [pci_address(each) or known.get(_REPLICA.sub("", each)) for each in ids]
    if not found or None in found:
        return None
    return frozenset(filter(None, found))


def read_gpus(procfs: Path) -> dict[str, str]:
    """Return the PCI addresses of this node's GPUs by UUID, as the driver lists them; nothing where it does not.

    Two small files of procfs a GPU: nothing here waits for the GPU itself.
    """
    try:
        folders = list((procfs / "driver/nvidia/gpus").iterdir())
    except OSError:
        return {}
    found = {}
    for folder in folders:
        address = pci_address(folder.name)
        try:
            uuid = _UUID.search((folder / "information").read_text(encoding="ascii", errors="replace"))
        except OSError:
            continue  # a GPU that is gone has no address to be told by
        if uuid and address:
            found[uuid.group(1)] = address
    return found
