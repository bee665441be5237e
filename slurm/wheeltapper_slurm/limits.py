"""How much the service takes from whom, and the account of what it drops.

A node that floods us must not cost the others their answers, and a stranger on the network must cost nobody anything.
Nothing is lost by a refusal: an agent keeps its report until it is answered.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from wheeltapper.errors import WireError

log = logging.getLogger(__name__)

OPEN_MAX = 800
"""Connections at once: under the 1,024 open files that systemd gives a service, with room for the rest."""

OPEN_PER_ADDRESS = 200
"""Of one address: an agent has a handful, so this holds for a whole rack behind one address, and for no attack."""

LARGE_AT_ONCE = 16
"""Large bodies read at once, of up to four megabytes each: nobody has proved anything while they are read."""

WHY = ("protocol", "size", "time", "proof", "foreign", "rate", "busy")
"""Why a message or a connection is dropped: the kinds of a WireError."""

SAY_EVERY_S = 60.0
"""Refusals are told once in this time at most: whoever fills our port must not fill our log."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What may come: messages and bytes a second in the long run, and both at once before that."""

    messages: float
    messages_burst: float
    bytes: float
    bytes_burst: float


PER_NODE = Rate(messages=20, messages_burst=200, bytes=256 << 10, bytes_burst=16 << 20)
"""Ten jobs end on a node in a second at most, with a report and a log report each; 16 MB are four of the largest."""

IN_ALL = Rate(messages=5_000, messages_burst=20_000, bytes=32 << 20, bytes_burst=256 << 20)
"""Every node of 5,000 once a second, and four times that at once."""


class Meter:
    """What has come lately, against a :class:`Rate`: two buckets that fill again with time."""

    __slots__ = ("_at", "_bytes", "_messages", "_rate")

    def __init__(self, rate: Rate, now: float) -> None:
        self._rate = rate
        self._messages, self._bytes, self._at = rate.messages_burst, rate.bytes_burst, now

    def take(self, size: int, now: float) -> bool:
        """Count one message of *size* bytes at *now* (seconds of any clock that does not jump); False when it is one
        too many, which does not count.
        """
        passed, self._at = max(0.0, now - self._at), now
        self._messages = min(self._rate.messages_burst, self._messages + passed * self._rate.messages)
        self._bytes = min(self._rate.bytes_burst, self._bytes + passed * self._rate.bytes)
        if self._messages < 1 or self._bytes < size:
            return False
        self._messages -= 1
        self._bytes -= size
        return True


class Rates:
    """The rates of all nodes, and of all together. Only names that were proved come here, so they are few."""

    def __init__(self, per_node: Rate = PER_NODE, in_all: Rate = IN_ALL) -> None:
        self._per_node, self._in_all = per_node, in_all
        self._all = Meter(in_all, 0.0)
        self._nodes: dict[str, Meter] = {}

    def admit(self, node: str, size: int, now: float) -> None:
        """Count a message of *size* bytes that *node* has proved to be its own, at *now*.

        Raises:
            WireError: it is one too many, of this node or of all.
        """
        meter = self._nodes.setdefault(node, Meter(self._per_node, now))
        if not meter.take(size, now):
            raise WireError(f"{node} sends more than it may", kind="rate")
        if not self._all.take(size, now):
            raise WireError(f"all nodes together send more than they may, the last was {node}", kind="rate")


class Doors:
    """Who is connected now."""

    def __init__(self, total: int = OPEN_MAX, per_address: int = OPEN_PER_ADDRESS) -> None:
        self._total, self._per_address = total, per_address
        self._open: Counter[str] = Counter()

    @contextmanager
    def enter(self, address: str) -> Iterator[None]:
        """Hold a place for a connection from *address*.

        Raises:
            WireError: there is none.
        """
        if self._open.total() >= self._total or self._open[address] >= self._per_address:
            raise WireError(f"too many connections at once, the last from {address}", kind="busy")
        self._open[address] += 1
        try:
            yield
        finally:
            self._open[address] -= 1
            if not self._open[address]:
                del self._open[address]


class Refusals:
    """What was dropped, counted by why. A metric tells all of it, the log a sentence a minute."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._untold: Counter[str] = Counter()
        self._told_at: float | None = None

    def add(self, error: WireError, address: str, now: float) -> None:
        """Count what *error* tells of, which came from *address* at *now* (seconds of any clock that does not jump)."""
        self.counts[error.kind] += 1
        self._untold[error.kind] += 1
        if self._told_at is not None and now - self._told_at < SAY_EVERY_S:
            return
        kinds = ", ".join(f"{count} for {kind}" for kind, count in sorted(self._untold.items()))
        log.warning("refused since the last such line: %s; the last, from %s: %s", kinds, address, error)
        self._untold.clear()
        self._told_at = now
