"""Slurm's compressed node lists, expanded without asking slurmctld."""

from __future__ import annotations

import re

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

MAX_NODES = 65_536
"""More than the largest Slurm cluster; a list that says more is a mistake or an attack on our memory."""

_RANGE = re.compile(r"(\d{1,18})-(\d{1,18})")


def expand(text: str) -> tuple[str, ...]:
    """Return the names in *text*, such as ``node[1-3,7],gpu-a[01-04]``, in their order; none for an empty list.

    Raises:
        ValueError: the text is no node list, or names more than :data:`MAX_NODES` nodes.
    """
    if text.strip() in {"", "(null)", "None assigned"}:
        return ()
    if sum(int(last) - int(first) + 1 for first, last in _RANGE.findall(text)) > MAX_NODES:
        raise ValueError(f"the node list {text[:80]!r} names more than {MAX_NODES} nodes")
    try:
        return tuple(NodeSet(text, resolver=RESOLVER_NOGROUP))
    except NodeSetException as error:
        raise ValueError(f"{text[:80]!r} is no node list: {error}") from error


def fold(names: set[str]) -> str:
    """Return *names* in Slurm's compressed form."""
    return str(NodeSet.fromlist(sorted(names), resolver=RESOLVER_NOGROUP))
