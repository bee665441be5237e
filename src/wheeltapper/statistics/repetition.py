"""The same application fault on one GPU over different jobs and users: then it is the GPU.

One such fault is the application's (facts: Xid 13, 31, 43 and 45 alone, "unspecified launch failure"). Programs fail
wherever they run; what fails only here, whoever runs, is the machine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from wheeltapper.statistics.exact import binomial_at_least

LEVEL: Final = 0.005
"""Chance that any healthy GPU of a cluster is suspected, all its GPUs counted."""

JOBS_MIN: Final = 3
USERS_MIN: Final = 2
"""Different jobs and users: the same program of one user may well meet its own bug on one GPU three times."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One application fault on one GPU. ``program`` is what the user calls the job, the same over its runs."""

    node: str
    gpu: str
    job: str
    program: str
    user: str


@dataclass(frozen=True, slots=True)
class Repeated:
    """A GPU on which application faults repeat. ``probability`` is that chance does this to any GPU of the cluster."""

    node: str
    gpu: str
    jobs: int
    users: int
    whole: int
    gpus: int
    probability: float

    @property
    def sentence(self) -> str:
        """The finding with its numbers."""
        return (
            f"GPU {self.gpu} of {self.node} met application faults in {self.jobs} different jobs of {self.users} users,"
            f" of {self.whole} on {self.gpus} GPUs in all (p = {self.probability:.1g})"
        )


def repeated(faults: Iterable[Fault], gpus: int) -> list[Repeated]:
    """Return the GPUs on which *faults* repeat beyond chance; *gpus* says how many GPUs the cluster has, at least.

    A program that fails on different nodes is to blame itself, and speaks against no GPU.
    """
    told = set(faults)
    nodes: dict[tuple[str, str], set[str]] = defaultdict(set)
    for each in told:
        nodes[each.user, each.program].add(each.node)
    counted = [each for each in told if len(nodes[each.user, each.program]) == 1]
    places: dict[tuple[str, str], list[Fault]] = defaultdict(list)
    for each in counted:
        places[each.node, each.gpu].append(each)
    whole = len({(each.job, each.node, each.gpu) for each in counted})
    known = max(gpus, len(places))
    found = []
    for (node, gpu), here in sorted(places.items()):
        jobs, users = len({each.job for each in here}), len({each.user for each in here})
        chance = binomial_at_least(jobs, whole, 1 / known) * known
        if jobs >= JOBS_MIN and users >= USERS_MIN and chance <= LEVEL:
            found.append(Repeated(node, gpu, jobs, users, whole, known, chance))
    return found
