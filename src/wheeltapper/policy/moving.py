"""Which running job loses its GPU, or its whole node, by a fault that the node itself proves. Pure.

Such a job rarely ends by itself: its ranks wait for each other until the collective's timeout, ten to thirty minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wheeltapper.evidence import Finding
from wheeltapper.wire import Health, JobStay


@dataclass(frozen=True, slots=True)
class Struck:
    """A job that runs on *node* with what *finding* proves to be broken.

    ``certain`` is False when the node cannot tell which of its GPUs the job has: it may be another, or none at all.
    """

    node: str
    stay: JobStay
    finding: Finding
    certain: bool

    @property
    def name(self) -> tuple[str, str]:
        """Where it is, and which job."""
        return self.node, self.stay.job


def faults(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return those of a node's *findings* for which a job that runs there is moved: what takes a node out."""
    return tuple(each for each in findings if each.convicts)


def struck(health: Health) -> Iterator[Struck]:
    """Yield the jobs on the node of *health* that hold what is broken there, each with its gravest fault.

    A fault from before a job came is none of its own, and a fault whose time is not known proves nothing. Where it is
    not known which GPUs a job has, it must be the only one that has any; for a fault of no GPU, the only one there.
    """
    guilty = faults(health.findings)
    for stay in health.stays:
        for each in guilty:
            if _fell_into(each, stay) and _holds(each, stay, health.stays):
                yield Struck(health.node, stay, each, certain=each.evidence.gpu is None or bool(stay.gpus))
                break


def _fell_into(finding: Finding, stay: JobStay) -> bool:
    at, began = finding.evidence.at, stay.prolog_at
    return at is not None and began is not None and at >= began


def _holds(finding: Finding, stay: JobStay, stays: tuple[JobStay, ...]) -> bool:
    gpu = finding.evidence.gpu
    if gpu is not None and stay.gpus:
        return gpu in stay.gpus
    with_gpus = tuple(each for each in stays if each.gpu_count)
    return (stay,) == (stays if gpu is None else with_gpus or stays)
