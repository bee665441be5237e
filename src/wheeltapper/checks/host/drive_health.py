"""What do the drives say of their own health?

Asked with `smartctl` where it is installed, else with `nvme`, every ten minutes. An NVMe drive that says that its
media can no longer be relied on, or that has made itself read-only, convicts. What is told as a warning: spare blocks
that run out, heat, a backup of its memory that failed, wear beyond the guaranteed life, and a SATA or SAS drive that
fails its own assessment. Drives of virtual machines mostly tell nothing, and are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from wheeltapper.checks import running
from wheeltapper.checks.files import entries, text
from wheeltapper.checks.model import Check, Fault, Host, NotApplicable, Probe, Reading
from wheeltapper.config import Section
from wheeltapper.evidence import Disposition, Finding

BROKEN = Fault("drive_health", "hardware/storage", "a drive says that it is broken", Disposition.REPLACE)
FAILING = Fault("drive_health", "hardware/storage", "a drive says that it is not well")

WARNINGS = {
    0x01: "spare blocks run out",
    0x02: "it is too hot or too cold",
    0x10: "the backup of its memory failed",
    0x20: "its persistent memory is read-only or unreliable",
}
BREAKAGES = {0x04: "its media can no longer be relied on", 0x08: "it has made itself read-only"}
"""Bits of the critical warning: NVM Express Base Specification, SMART / Health Information."""

ASK_S = 10.0
"""A drive's answer takes milliseconds; one that is broken may take seconds."""


@dataclass(frozen=True, slots=True)
class Drive:
    """What a drive says: ``warning`` and ``used_percent`` of an NVMe drive, ``passed`` of any."""

    warning: int
    used_percent: int
    passed: bool


class Limits(Section):
    """When wear is worth telling."""

    used_percent: int = Field(
        100,
        ge=1,
        description="Percent of the life that its maker guarantees an NVMe drive; beyond it, it may serve for years.",
    )


def read(host: Host) -> Mapping[str, Drive]:
    """Return what the drives of *host* say, by name; those that say nothing are left out.

    Raises:
        NotApplicable: there is no drive that tells, or no program to ask with.
        OSError: a program cannot be started, or a drive does not answer in time.
        ValueError: the program's answer cannot be read.
    """
    names = [each.name for each in entries(host.sysfs / "class/nvme") if text(each / "transport") in {None, "pcie"}]
    disks = [each.name for each in entries(host.sysfs / "block") if each.name.startswith("sd")]
    names += [name for name in disks if text(host.sysfs / "block" / name / "removable") == "0"]
    if not names:
        raise NotApplicable("there is no drive of its own")
    ask = _asking(host)
    found = {name: drive for name in names if (drive := ask(name))}
    if not found:
        raise NotApplicable("no drive tells its health")
    return found


def _asking(host: Host) -> Callable[[str], Drive | None]:
    """Return how a drive is asked by its name."""
    smartctl, nvme = running.find(host, "smartctl"), running.find(host, "nvme")
    if smartctl is not None:
        return lambda name: _smart(_json([smartctl, "--json", "--health", "--attributes", host.dev / name]))
    if nvme is None:
        raise NotApplicable("neither smartctl nor nvme is installed")
    return lambda name: (
        _nvme(_json([nvme, "smart-log", "--output-format=json", host.dev / name])) if name.startswith("nvme") else None
    )


def _json(command: Sequence[str | Path]) -> Mapping[str, Any]:
    told = running.run([str(word) for word in command], ASK_S).output
    start = told.find("{")
    if start < 0 and "UNRECOGNIZED OPTION" in told:
        raise NotApplicable(f"{command[0]} is too old to answer in JSON (smartmontools before 7.0)")
    if start < 0:
        raise ValueError(f"{command[0]} answered: {told.strip()[:200] or 'nothing'}")
    answer: Mapping[str, Any] = json.loads(told[start:])
    return answer


def _smart(answer: Mapping[str, Any]) -> Drive | None:
    log = answer.get("nvme_smart_health_information_log", {})
    passed = answer.get("smart_status", {}).get("passed")
    if not log and passed is None:
        return None
    return Drive(int(log.get("critical_warning", 0)), int(log.get("percentage_used", 0)), passed is not False)


def _nvme(answer: Mapping[str, Any]) -> Drive | None:
    if "critical_warning" not in answer:
        return None
    warning = answer["critical_warning"]
    # Newer releases of the program take the bits apart, and keep the whole under "value".
    whole = warning.get("value", 0) if isinstance(warning, dict) else warning
    return Drive(int(whole), int(answer.get("percent_used", answer.get("percentage_used", 0))), passed=True)


def judge(readings: Sequence[Reading[Mapping[str, Drive]]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each drive that is broken or not well."""
    now = readings[-1]
    for name, drive in now.value.items():
        broken = [words for bit, words in BREAKAGES.items() if drive.warning & bit]
        unwell = [words for bit, words in WARNINGS.items() if drive.warning & bit]
        if drive.used_percent > limits.used_percent:
            unwell.append(f"{drive.used_percent} % of its life is used up")
        if not drive.passed and not drive.warning:
            unwell.append("it fails its own assessment")
        if broken or unwell:
            fault = BROKEN if broken else FAILING
            text = f"drive {name}: {', '.join([*broken, *unwell])}"
            detail = f"device={name} critical_warning={drive.warning:#x}"
            yield fault.seen(host, now.at, text, detail=detail, device=name)


PROBE = Probe("drives", read, every_s=600.0, deadline_s=60.0, may_hang=True)
CHECK = Check("drive_health", PROBE, judge, Limits)
