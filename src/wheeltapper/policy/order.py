"""In which order a large job does without nodes: a rule without any number in it, for the product and for a replay."""

from __future__ import annotations

from collections.abc import Mapping


def last_failed_first(failed: Mapping[str, float], most: int) -> list[str]:
    """Return at most *most* of the nodes in *failed*, those that failed last first; it holds when each did."""
    return sorted(failed, key=lambda node: (-failed[node], node))[:most]
