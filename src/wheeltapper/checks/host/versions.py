"""Which versions of kernel, drivers and libraries does the node run?

Read from files, so that a broken driver can be told as well: kernel, NVIDIA driver, CUDA, NCCL, OFED. What a site sets
in the limits must be how the version begins (`nvidia_driver = "570."`). That the nodes of one job run the same is
looked at for each job, whatever is set here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from wheeltapper.checks.files import text
from wheeltapper.checks.model import Check, Fault, Host, NotApplicable, Probe, Reading
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

OTHER = Fault("versions", "software/env_mismatch", "the node runs another version than it should")

_DRIVER = re.compile(r"NVRM version:.*?\s(\d+\.\d+(?:\.\d+)?)\s")
_NCCL = re.compile(r"libnccl\.so\.(\d+\.\d+\.\d+)$")

LIBRARIES = ("usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "usr/lib64", "usr/local/lib")


class Limits(Section):
    """How each version must begin; what is not set may be any."""

    kernel: str | None = Field(None, description="The kernel's release.")
    nvidia_driver: str | None = Field(None, description="The NVIDIA driver that is loaded.")
    cuda: str | None = Field(None, description="The CUDA toolkit in /usr/local/cuda.")
    nccl: str | None = Field(None, description="The NCCL that is installed on the node; containers bring their own.")
    ofed: str | None = Field(
        None, description="The driver of NVIDIA's network adapters, where it is not the kernel's own."
    )


def read(host: Host) -> Mapping[str, str]:
    """Return the versions that *host* tells, by the names of the limits.

    Raises:
        NotApplicable: it tells none.
        OSError: the kernel's release cannot be read.
    """
    try:
        kernel = (host.procfs / "sys/kernel/osrelease").read_text(encoding="utf-8").strip()
    except FileNotFoundError as error:
        raise NotApplicable("this machine tells no versions") from error
    found = {
        "kernel": kernel,
        "nvidia_driver": _first(_DRIVER, text(host.procfs / "driver/nvidia/version")),
        "cuda": _cuda(text(host.root / "usr/local/cuda/version.json")),
        "nccl": _nccl(host),
        "ofed": text(host.sysfs / "module/mlx5_core/version"),
    }
    return {name: version for name, version in found.items() if version}


def _first(pattern: re.Pattern[str], told: str | None) -> str | None:
    found = pattern.search(f"{told} ") if told else None
    return found[1] if found else None


def _cuda(told: str | None) -> str | None:
    try:
        version = json.loads(told or "{}").get("cuda", {}).get("version")
    except (ValueError, AttributeError):
        return None  # somebody else's file
    return version if isinstance(version, str) else None


def _nccl(host: Host) -> str | None:
    names = (path.name for folder in LIBRARIES for path in (host.root / folder).glob("libnccl.so.*"))
    installed = (found[1] for name in names if (found := _NCCL.search(name)))
    return max(installed, key=lambda version: tuple(map(int, version.split("."))), default=None)


def judge(readings: Sequence[Reading[Mapping[str, str]]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each version that is not what the site wants."""
    now = readings[-1]
    for name in Limits.model_fields:
        wanted = getattr(limits, name)
        version = now.value.get(name, "none")
        if wanted is not None and not version.startswith(wanted):
            text = f"{name} is {version}, and should be {wanted}"
            yield OTHER.seen(host, now.at, text, detail=f"{name}:{version}", device=name)


PROBE = Probe("versions", read, every_s=600.0)
CHECK = Check("versions", PROBE, judge, Limits)
