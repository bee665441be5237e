"""Which versions of what all nodes of a job must agree on this node has; read from files, never by a program."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

from wheeltapper.checks.model import Host

_DRIVER = re.compile(r"Kernel Module(?: for \S+)?\s+(\d+(?:\.\d+)+)")
"""``/proc/driver/nvidia/version`` names the module that is loaded, which is what a program meets."""

_LIBRARIES = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/local/lib")
_NCCL = re.compile(r"libnccl\.so\.(\d+\.\d+\.\d+)$")


def read(host: Host) -> dict[str, str]:
    """Return the versions by their names; what the node does not have, or does not tell, is left out.

    ``nccl`` is the library of the system; a container or a wheel may bring its own.
    """
    return {name: version for name, look in _READERS.items() if (version := _or_nothing(look, host))}


def _or_nothing(look: Callable[[Host], str], host: Host) -> str:
    try:
        return look(host)
    except (OSError, ValueError, LookupError, TypeError):
        return ""


def _kernel(host: Host) -> str:
    return (host.procfs / "sys/kernel/osrelease").read_text(encoding="utf-8").strip()


def _driver(host: Host) -> str:
    found = _DRIVER.search((host.procfs / "driver/nvidia/version").read_text(encoding="utf-8", errors="replace"))
    return found[1] if found else ""


def _cuda(host: Host) -> str:
    told: Any = json.loads((host.root / "usr/local/cuda/version.json").read_text(encoding="utf-8"))
    return str(told["cuda"]["version"])


def _nccl(host: Host) -> str:
    return max(_nccl_libraries(host), default="")


def _nccl_libraries(host: Host) -> Iterator[str]:
    for folder in _LIBRARIES:
        for path in (host.root / folder).glob("libnccl.so.2.*"):
            if found := _NCCL.search(path.name):
                yield found[1]


def _ofed(host: Host) -> str:
    return (host.sysfs / "module/mlx5_core/version").read_text(encoding="utf-8").strip()


_READERS: dict[str, Callable[[Host], str]] = {
    "kernel": _kernel,
    "driver": _driver,
    "cuda": _cuda,
    "nccl": _nccl,
    "ofed": _ofed,
}
