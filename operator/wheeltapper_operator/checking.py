"""Whether an installation works: what ``helm test`` asks. Nothing is changed."""

from __future__ import annotations

import asyncio
import time

from wheeltapper import kubernetes_names as names
from wheeltapper.errors import SchedulerError
from wheeltapper_operator import objects
from wheeltapper_operator.api import Api, Json, path_of

PATIENCE_S = 30.0
"""Seconds until all must be well: a leader renews its lease every 2 s, and a new one is found within 15."""

LOOK_S = 1.0


async def check(api: Api, namespace: str, release: str) -> list[str]:
    """Return what does not work of *release*, a sentence each; an empty list when all does.

    Raises:
        SchedulerError: the API server does not answer, or refuses what was asked.
    """
    return [*await _leader(api, namespace), *await _agents(api, namespace, release)]


async def _leader(api: Api, namespace: str) -> list[str]:
    path = path_of("coordination.k8s.io/v1", "leases", namespace, names.LEASE)
    deadline = time.monotonic() + PATIENCE_S
    first = ""
    while time.monotonic() < deadline:
        spec = await _spec(api, path)
        renewed = str(spec.get("renewTime", ""))
        if spec.get("holderIdentity") and first and renewed != first:
            return []
        first = first or renewed
        await asyncio.sleep(LOOK_S)
    return ["no operator leads: its lease is not renewed"]


async def _spec(api: Api, path: str) -> Json:
    try:
        spec: Json = (await api.get(path)).get("spec") or {}
    except SchedulerError:
        return {}
    return spec


async def _agents(api: Api, namespace: str, release: str) -> list[str]:
    deadline = time.monotonic() + PATIENCE_S
    while silent := await _silent(api, namespace, release):
        if time.monotonic() > deadline:
            return [f"the agent on {node} has not said how the node is" for node in silent]
        await asyncio.sleep(LOOK_S)
    return []


async def _silent(api: Api, namespace: str, release: str) -> list[str]:
    """Return the nodes with an agent's pod and without its word."""
    selector = f"app.kubernetes.io/component=agent,app.kubernetes.io/instance={release}"
    pods = (await api.get(path_of("v1", "pods", namespace), labelSelector=selector)).get("items") or ()
    found = (await api.get(path_of(names.GROUP, "nodehealths"))).get("items") or ()
    told = {item["metadata"]["name"] for item in found if objects.node_health(item) is not None}
    return sorted({str(pod["spec"]["nodeName"]) for pod in pods if pod["spec"].get("nodeName")} - told)
