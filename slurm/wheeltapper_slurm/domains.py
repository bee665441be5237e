"""Failure domains: nodes that fail together, since they share a switch, a rack or a power supply."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wheeltapper.errors import ConfigError
from wheeltapper.policy.budget import Share, Standing
from wheeltapper.policy.reason import is_ours
from wheeltapper_slurm import hostlist, records
from wheeltapper_slurm.records import NodeRecord


def of(named: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Return the members of the domains that the configuration names.

    Raises:
        ConfigError: one of them is no node list.
    """
    found = {}
    for name, text in named.items():
        try:
            found[name] = frozenset(hostlist.expand(text))
        except ValueError as error:
            raise ConfigError(f"policy.budget.domains.{name}: {error}") from error
    return found


def leaves(text: str) -> dict[str, frozenset[str]]:
    """Return the leaf switches or blocks in what ``scontrol show topology`` prints.

    A switch of a higher level repeats the nodes of its leaves, and a whole cluster is no domain. Lines that cannot be
    read are passed over: a budget that is not divided still holds per partition.
    """
    found = {}
    for line in text.splitlines():
        pairs = records.fields(line)
        name = pairs.get("BlockName") or (pairs.get("SwitchName") if pairs.get("Level") == "0" else None)
        if name:
            try:
                found[name] = frozenset(hostlist.expand(pairs.get("Nodes", "")))
            except ValueError:
                continue
    return found


def standing(node: NodeRecord, nodes: Iterable[NodeRecord], members: Mapping[str, frozenset[str]]) -> Standing:
    """Return how many of *nodes* are out by our doing in each partition and in each domain that *node* belongs to."""
    everywhere = list(nodes)
    partitions = {name: _share(each for each in everywhere if name in each.partitions) for name in node.partitions}
    domains = {
        f"domain {name}": _share(each for each in everywhere if each.name in names)
        for name, names in members.items()
        if node.name in names
    }
    return Standing(partitions, domains)


def _share(nodes: Iterable[NodeRecord]) -> Share:
    out = [node.drained and is_ours(node.reason) for node in nodes]
    return Share(len(out), sum(out))
