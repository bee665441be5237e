"""What is known of an attempt that is ending: gathered while it can be had, until there is no more to come."""

from __future__ import annotations

from dataclasses import dataclass, field

from wheeltapper_operator.pods import Pod

SETTLE_S = 4.0
"""From the first sign to the diagnosis: the ranks of a gang fail within seconds of each other, and the rest hang."""

LONGEST_S = 20.0
"""However much still changes, this is when we diagnose: a hung gang holds its GPUs."""


@dataclass(slots=True)
class Ending:
    """The end of one attempt so far, by pod UID.

    ``attempt`` is its number; ``began`` and ``heard`` are Unix seconds; ``fault`` names a node that was found broken
    under the job; ``kept_off`` are the names of pods that their preflight did not let start; ``pending`` counts logs
    that are being fetched.
    """

    attempt: int
    began: float
    heard: float
    records: dict[str, str] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    """The node of each pod by the pod's name: an event about a pod does not say where it ran."""
    exit_code: int = 0
    disrupted: bool = False
    fault: str = ""
    kept_off: dict[str, str] = field(default_factory=dict)
    pending: int = 0
    silent: dict[str, float] = field(default_factory=dict)
    """The attempt's nodes that are not ready, and since when (Unix seconds), as the cluster says."""

    def take(self, pod: Pod, now: float) -> None:
        """Take up how *pod* ended."""
        self.heard = now
        self.records[pod.uid] = pod.record
        self.nodes[pod.uid] = self.places[pod.name] = pod.node
        self.exit_code = self.exit_code or pod.exit_code
        self.disrupted = self.disrupted or pod.disrupted
        if pod.kept_off:
            self.kept_off[pod.uid] = pod.name

    def due_in(self, now: float) -> float:
        """Return in how many seconds it may be diagnosed; 0 when it may be now."""
        longest = self.began + LONGEST_S - now
        settled = self.heard + SETTLE_S - now
        return max(0.0, min(longest, settled if not self.pending else longest))
