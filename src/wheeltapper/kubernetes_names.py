"""Every name that agent and operator write into a cluster: one prefix for all of them."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "wheeltapper.dev"
GROUP: Final = f"{PREFIX}/v1alpha1"

TAINT: Final = f"{PREFIX}/unhealthy"
"""Its value is ``<family>.<kind>``."""

QUARANTINE: Final = f"{PREFIX}/quarantine"
"""On a node: the record of our own quarantine, as JSON; it is there as long as the node is out by our doing."""

HISTORY: Final = f"{PREFIX}/history"
"""On a node: when it was taken out and came back, as JSON, the newest last."""

CONDITION: Final = "WheeltapperUnhealthy"
"""Of a node, written by its own agent: True is a problem."""

MANAGER: Final = "wheeltapper"
"""The name under which the API server books our changes."""
