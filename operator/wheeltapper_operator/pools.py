"""How many nodes there are in each pool and failure domain, and how many of them are out by our doing."""

from __future__ import annotations

from collections import Counter

from wheeltapper.policy.budget import Share, Standing
from wheeltapper_operator.objects import Node
from wheeltapper_operator.reflector import Change

NO_POOL = "the cluster"
"""The pool of nodes that carry no label of a pool."""

_Key = tuple[str, str]


class Pools:
    """Follows the nodes, so that a decision need not count all of them."""

    def __init__(self) -> None:
        self._size: Counter[_Key] = Counter()
        self._out: Counter[_Key] = Counter()
        self._leaving: dict[str, Node] = {}

    def hear(self, change: Change[Node]) -> None:
        """Take up what became of a node."""
        for node, by in ((change.old, -1), (change.new, 1)):
            if node is not None:
                for key in _keys(node):
                    self._size[key] += by
                    self._out[key] += by * bool(node.quarantine)

    def reserve(self, node: Node) -> None:
        """Count *node* as out while its quarantine is being written: two at once must not pass the budget."""
        if not node.quarantine:
            self._leaving[node.name] = node

    def settle(self, node: Node) -> None:
        """The write about *node* came to its end."""
        self._leaving.pop(node.name, None)

    def standing(self, of: Node) -> Standing:
        """Return the shares of the pool and of the failure domain of *of*."""
        leaving = Counter(key for node in self._leaving.values() for key in _keys(node))
        found = {key: Share(self._size[key], self._out[key] + leaving[key]) for key in _keys(of)}
        pools = {name: share for (kind, name), share in found.items() if kind == "pool"}
        return Standing(pools, {name: share for (kind, name), share in found.items() if kind == "domain"})


def _keys(node: Node) -> tuple[_Key, ...]:
    pool = ("pool", node.pool or NO_POOL)
    return (pool, ("domain", node.domain)) if node.domain else (pool,)
