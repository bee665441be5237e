"""Are all NVLinks of a GPU up, and do they run without errors?

A link that is down while it was up before, or while every other GPU of the same kind has all of its links up, is a
warning, and convicts when it is still down at the next reading. Boards that wire no links, or fewer, are well as they
are; so is a GPU with MIG, which switches its links off, and one that is still joining the NVSwitch fabric.

Recoveries are a warning from the first one on, CRC errors from a hundred a second on. Errors in more than half of the
last thirty minutes convict the port.

Source: DCGM and gpud for recoveries and CRC errors; NVIDIA's resiliency extension for the half of thirty windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from pydantic import Field

from wheeltapper import gpu_state
from wheeltapper.checks.gpu.fabric import COMPLETED, NOT_SUPPORTED
from wheeltapper.checks.gpu.nvml import PROBE
from wheeltapper.checks.gpu.snapshot import Gpu, Link, Readings, Snapshot, before, growth
from wheeltapper.checks.model import Check, Fault, Host
from wheeltapper.config import Section
from wheeltapper.evidence import Disposition, Finding

DOWN = Fault("gpu_nvlink", gpu_state.NVLINK.label, "an NVLink is down", Disposition.INSPECT)
DOWN_ONCE = Fault("gpu_nvlink", DOWN.label, "an NVLink was down at the last look")
BAD = Fault("gpu_nvlink", DOWN.label, "an NVLink has errors all the time", Disposition.INSPECT)
ERRORS = Fault("gpu_nvlink", DOWN.label, "an NVLink gained errors")

HOUR_S = 3600.0

Series = list[tuple[float, Link]]


class Limits(Section):
    """How many errors a link may have."""

    crc_errors_per_hour_max: int = Field(
        gpu_state.NVLINK_CRC_PER_HOUR, ge=0, description="CRC errors of a link in an hour: 100 a second (DCGM, gpud)."
    )
    recoveries_max: int = Field(0, ge=0, description="Recoveries of a link in half an hour (DCGM, gpud: none).")
    windows_max: int = Field(
        15, ge=1, description="Of the last 30 minutes, how many may have errors (NVIDIA's resiliency extension)."
    )


def judge(readings: Readings, host: Host, limits: Limits) -> Iterator[Finding]:
    """Yield each GPU with links that are down or have errors."""
    now = readings[-1]
    for gpu in now.value.having("links"):
        if gpu.has_mig or _is_joining(gpu):
            continue
        down = _down(readings, gpu)
        if down:
            lasting = len(readings) > 1 and set(down) & set(_down_before(readings[:-1], gpu.address))
            text = f"Of the {len(gpu.links or ())} NVLinks of GPU {gpu.address} these are down: {_numbers(down)}"
            yield (DOWN if lasting else DOWN_ONCE).seen(host, now.at, text, detail=_detail(down), **gpu.named)
        for series in _series(readings, gpu.address).values():
            yield from _errors(host, now.at, gpu, series, limits)


def _errors(host: Host, at: float, gpu: Gpu, seen: Series, limits: Limits) -> Iterator[Finding]:
    """Yield what the counters of one link, *seen* over time, say."""
    number = seen[-1][1].number
    recoveries = growth([link.recoveries for _, link in seen if link.recoveries is not None])
    crc = growth([link.crc_errors for _, link in seen if link.crc_errors is not None])
    hours = max((seen[-1][0] - seen[0][0]) / HOUR_S, 1 / 60)
    bad = sum(_has_grown(one, other) for (_, one), (_, other) in pairwise(seen))
    where = f"NVLink {number} of GPU {gpu.address}"
    if bad > limits.windows_max:
        text = f"{where} had errors in {bad} of the last {len(seen) - 1} readings"
        yield BAD.seen(host, at, text, detail=f"link={number}", **gpu.named)
    elif recoveries > limits.recoveries_max:
        text = f"{where} had to recover {recoveries} times in {hours * 60:.0f} minutes"
        yield ERRORS.seen(host, at, text, detail=f"link={number} recoveries={recoveries}", **gpu.named)
    elif crc / hours > limits.crc_errors_per_hour_max:
        text = f"{where} had {crc} CRC errors in {hours * 60:.0f} minutes"
        yield ERRORS.seen(host, at, text, detail=f"link={number} crc_errors={crc}", **gpu.named)


def _has_grown(one: Link, other: Link) -> bool:
    """True when the link gained recoveries, or errors of receiving, from *one* reading to the *other*."""
    pairs = ((one.recoveries, other.recoveries), (one.receive_errors, other.receive_errors))
    return any(growth((early, late)) > 0 for early, late in pairs if early is not None and late is not None)


def _series(readings: Readings, address: str) -> dict[int, Series]:
    """Return how each link of the GPU at *address* was seen over time, by its number."""
    series: dict[int, Series] = {}
    for at, gpu in before(readings, address, PROBE.keep_s):
        for link in gpu.links or ():
            series.setdefault(link.number, []).append((at, link))
    return series


def _down(readings: Readings, gpu: Gpu) -> list[int]:
    """Return the links of *gpu*, in the newest of *readings*, that are down and should not be."""
    down = [link.number for link in gpu.links or () if not link.is_up]
    if not down or _others_are_whole(readings[-1].value, gpu):
        return down
    series = _series(readings, gpu.address)
    return [number for number in down if any(link.is_up for _, link in series[number])]


def _down_before(readings: Readings, address: str) -> list[int]:
    gpu = readings[-1].value.gpu(address)
    return _down(readings, gpu) if gpu is not None and gpu.links else []


def _others_are_whole(seen: Snapshot, gpu: Gpu) -> bool:
    """True when the node has other GPUs of this kind, and each of them has all of its links up.

    A GPU without any link up may be one that has no bridge to others.
    """
    if not any(link.is_up for link in gpu.links or ()):
        return False
    others = [each for each in seen.gpus if each.name == gpu.name and each is not gpu and each.links]
    return bool(others) and all(link.is_up for each in others for link in each.links or ())


def _is_joining(gpu: Gpu) -> bool:
    return gpu.fabric is not None and gpu.fabric.state not in {NOT_SUPPORTED, COMPLETED}


def _numbers(links: Sequence[int]) -> str:
    return ", ".join(map(str, links))


def _detail(links: Sequence[int]) -> str:
    return f"links={','.join(map(str, links))}"


CHECK = Check("gpu_nvlink", PROBE, judge, Limits)
