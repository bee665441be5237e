"""Where a rank runs: logs name both where ranks introduce themselves, and a suspect rank is worth little without."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from wheeltapper.diagnosis.model import Suspect
from wheeltapper.evidence import Finding

INTRODUCTION = "nccl.rank"


def with_nodes(suspects: Sequence[Suspect], told: Sequence[Finding]) -> tuple[Suspect, ...]:
    """Return *suspects* with the node of each rank, where *told* holds its introduction.

    A rank that never introduced itself, in a world of equal nodes, runs where its neighbours do.
    """
    if all(each.node is not None or each.rank is None for each in suspects):
        return tuple(suspects)
    hosts = {
        each.evidence.rank: each.fields["host"].partition(".")[0]
        for each in told
        if each.signature == INTRODUCTION and each.evidence.rank is not None
    }
    return tuple(
        replace(each, node=_node(each.rank, hosts)) if each.node is None and each.rank is not None else each
        for each in suspects
    )


def _node(rank: int, hosts: dict[int, str]) -> str | None:
    if rank in hosts:
        return hosts[rank]
    before, after = hosts.get(rank - 1), hosts.get(rank + 1)
    return before if before == after else None
