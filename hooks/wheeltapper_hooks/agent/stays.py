"""A job's stay on this node: when it began, which GPUs it had, and which faults fell into it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from wheeltapper.evidence import Finding
from wheeltapper.wire import JobStay
from wheeltapper_hooks.agent.markers import Marker, gpu_addresses, gpu_count
from wheeltapper_hooks.agentless import GUESSED_STAY_S

BEFORE_S = 60.0
"""Evidence is handed on from a minute before the stay: what shows only now may have begun just before."""


@dataclass(frozen=True, slots=True)
class Moment:
    """The same moment on the wall clock and on the clock that counts from boot, in seconds."""

    now: float
    uptime: float
    boot_id: str


def stay_of(
    job: str, marker: Marker | None, environment: Mapping[str, str], gpus: Sequence[str], moment: Moment
) -> JobStay:
    """Return the stay that ends at *moment*; its beginning is None when nothing tells it.

    The marker is believed before Slurm's start time, which is the whole job's and there only from Slurm 23.02.
    """
    started = environment.get("SLURM_JOB_START_TIME", "")
    began: float | None = None
    if marker is not None and marker.boot_id == moment.boot_id:
        began = moment.now - (moment.uptime - marker.uptime)
    elif started.isascii() and started.isdigit():
        began = float(started)
    indices = environment.get("SLURM_JOB_GPUS") or (marker.gpus if marker else "")
    return JobStay(job, began, moment.now, gpu_addresses(indices, gpus), gpu_count(indices))


def running(jobs: Mapping[str, Marker], gpus: Sequence[str], moment: Moment) -> tuple[JobStay, ...]:
    """Return the stays that last at *moment*, from the markers of *jobs*; a marker of another boot is of no job."""
    here = {job: marker for job, marker in jobs.items() if marker.boot_id == moment.boot_id}
    stays = (stay_of(job, marker, {}, gpus, moment) for job, marker in here.items())
    return tuple(replace(stay, epilog_at=None) for stay in stays)


def began(stay: JobStay, now: float) -> float:
    """Return when *stay* began; guessed when it is not known."""
    return stay.prolog_at if stay.prolog_at is not None else now - GUESSED_STAY_S


def of_this_stay(findings: Iterable[Finding], stay: JobStay, now: float) -> tuple[Finding, ...]:
    """Return those of *findings* that fell into *stay* and, where the job's GPUs are known, on one of them.

    A finding that names no GPU counts for every job that was there.
    """
    since = began(stay, now)
    return tuple(
        each
        for each in findings
        if (each.evidence.at is None or each.evidence.at >= since)
        and (not stay.gpus or each.evidence.gpu is None or each.evidence.gpu in stay.gpus)
    )
