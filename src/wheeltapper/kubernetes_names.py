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

LEASE: Final = "wheeltapper-operator"
"""Which operator leads, in the operator's own namespace."""

ORDER: Final = f"{PREFIX}/requeue"
"""On a job: the gang requeue that is under way, as JSON; a site's own tools may wait for it to go."""

ATTEMPTS: Final = f"{PREFIX}/attempts"
"""On a job: its earlier attempts and why each ended, as JSON, the newest last."""

EXCLUDED: Final = f"{PREFIX}/excluded-nodes"
"""On a job: the nodes that we have put into its node affinity, by their host names."""

AVOIDED: Final = f"{PREFIX}/avoided-nodes"
"""On a job: the nodes that we have put into its node affinity as those that it had better not use."""

LABEL: Final = f"{PREFIX}/label"
"""On a job: the label of its last interruption, for people and their tools."""

WISH: Final = f"{PREFIX}/requeue-policy"
"""On a job, by its user: ``on`` or ``off``."""

PREFLIGHT: Final = f"{PREFIX}/preflight"
"""On a namespace, ``enabled`` has the pods of its training jobs checked; on a pod, ``disabled`` leaves that one be."""

PREFLIGHT_CONTAINER: Final = "wheeltapper-preflight"
"""The init container that asks the node's agent, and the volume with the token by which it proves whose it is."""

AUDIENCE: Final = f"{PREFIX}/preflight"
"""Whom that token is for: no other service takes it, the API server's own interface included."""

KEPT_OFF: Final = 100
"""The init container's exit code when the node's agent has found the pod's machine guilty."""
