"""Does the whole machine stand still for want of something?

Pressure stall information of the kernel: the share of time in which no task that had work could run, because all
waited for memory or for files. Averaged over five minutes, so that a checkpoint that is being written is no news.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pydantic import Field

from wheeltapper import defaults
from wheeltapper.checks.files import lines
from wheeltapper.checks.model import Check, Fault, Host, NotApplicable, Probe, Reading
from wheeltapper.config import Section
from wheeltapper.evidence import Finding

FAULTS = {
    "io": Fault("pressure", "resource/shared_fs_io", "the node stands still waiting for files"),
    "memory": Fault("pressure", "resource/host_oom", "the node stands still for want of memory"),
}
"""Processor time is left out: for the whole machine the kernel counts no time in which nothing ran for want of it."""

_FULL = re.compile(r"^full avg10=[\d.]+ avg60=[\d.]+ avg300=([\d.]+)")


class Limits(Section):
    """When pressure is worth telling."""

    stalled_percent: float = Field(
        defaults.STALLED_PERCENT,
        gt=0,
        le=100,
        strict=False,
        description="Percent of five minutes in which nothing ran; systemd-oomd kills from 60 percent of 30 s on.",
    )


def read(host: Host) -> Mapping[str, float]:
    """Return the percent of the last five minutes in which nothing ran, by what was wanting.

    Raises:
        NotApplicable: this kernel does not count it.
        ValueError: it is not what a kernel writes.
    """
    folder = host.procfs / "pressure"
    if not folder.is_dir():
        raise NotApplicable("this kernel counts no pressure (PSI)")
    found = {}
    for name in FAULTS:
        for line in lines(folder / name):
            if full := _FULL.match(line):
                found[name] = float(full[1])
    if not found:
        raise ValueError(f"{folder} cannot be read")
    return found


def judge(readings: Sequence[Reading[Mapping[str, float]]], host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield what the machine stands still for."""
    now = readings[-1]
    for name, percent in now.value.items():
        if percent >= limits.stalled_percent:
            text = f"nothing ran {percent:.0f} % of the last five minutes, for want of {name}"
            yield FAULTS[name].seen(host, now.at, text, detail=f"{name}={percent:.0f}%", device=name)


PROBE = Probe("pressure", read)
CHECK = Check("pressure", PROBE, judge, Limits)
