"""What the nodes say of themselves: in memory alone, since every node says it again soon."""

from __future__ import annotations

from wheeltapper.wire import Health

STALE_AFTER = 3.0
"""Intervals after which a node that was not heard counts as silent: one message may be lost, and jitter is half one."""


class Healths:
    """The newest word of each node; *interval* is how often nodes speak, in seconds."""

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._heard: dict[str, tuple[float, Health]] = {}
        self._broken: set[str] = set()

    def hear(self, health: Health, now: float) -> None:
        """Take up what a node said at *now* (Unix seconds)."""
        self._heard[health.node] = (now, health)
        if health.stays:
            self._broken.add(health.node)
        else:
            self._broken.discard(health.node)

    def broken(self, now: float) -> list[Health]:
        """Return what those nodes have said lately that are broken under jobs."""
        said = (self.of(node, now) for node in sorted(self._broken))
        return [health for health in said if health is not None]

    def of(self, node: str, now: float) -> Health | None:
        """Return what *node* has said lately; None when it has said nothing."""
        at, health = self._heard.get(node, (0.0, None))
        return health if now - at <= STALE_AFTER * self._interval else None
