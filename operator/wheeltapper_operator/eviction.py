"""Asks pods with GPUs to leave a node that is out, where the configuration wants it, as their disruption budgets allow.

Pods of the jobs that the operator looks after are not asked: one rank that leaves alone hangs its gang, or fails its
job for good.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator

from wheeltapper_operator.api import ApiError, Json, path_of
from wheeltapper_operator.events import Regarding
from wheeltapper_operator.jobs import KINDS
from wheeltapper_operator.objects import Node
from wheeltapper_operator.parts import Parts

log = logging.getLogger(__name__)

MIRROR = "kubernetes.io/config.mirror"
"""On a pod that a kubelet has made of a file of its own: it cannot be evicted."""

TOO_MANY = 429
"""The API server's answer when a disruption budget forbids the eviction."""

ENDED = frozenset({"Succeeded", "Failed"})


class Evictor:
    """Evicts, and says on the node whom it could not evict, once for each pod."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._is_gpu = parts.settings.kubernetes.preflight.is_gpu
        self._told: dict[str, frozenset[str]] = {}

    async def clear(self, node: Node) -> None:
        """Ask every pod that has to go to leave *node*. What may not go yet is asked again at the next call.

        Raises:
            SchedulerError: the API server does not answer, or refuses for another reason than a budget.
        """
        found = await self._parts.api.get(
            path_of("v1", "pods"), fieldSelector=f"spec.nodeName={node.name}", resourceVersion="0"
        )
        stays: set[str] = set()
        for item in leaving(found.get("items") or (), self._is_gpu):
            if not await self._evict(node, item):
                stays.add(item["metadata"]["uid"])
        self._told[node.name] = frozenset(stays)
        if not stays:
            self._told.pop(node.name)

    async def _evict(self, node: Node, item: Json) -> bool:
        """Evict one pod; return False when its disruption budget forbids it for now."""
        meta = item["metadata"]
        key = f"{meta['namespace']}/{meta['name']}"
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
            "deleteOptions": {"preconditions": {"uid": meta["uid"]}},
        }
        await self._parts.turn()
        try:
            await self._parts.api.post(path_of("v1", "pods", meta["namespace"], meta["name"], "eviction"), body)
        except ApiError as error:
            if error.status == TOO_MANY:
                if meta["uid"] not in self._told.get(node.name, ()):
                    self._tell(node, "EvictionWaits", f"{key} stays for now: {error}", warning=True)
                return False
            if error.is_conflict or error.status == 404:
                return True  # it is gone, or another has its name
            raise
        self._tell(node, "Evicted", f"{key} was asked to leave", warning=False)
        return True

    def _tell(self, node: Node, reason: str, message: str, *, warning: bool) -> None:
        log.info("%s: %s", node.name, message)
        about = Regarding("v1", "Node", node.name, node.uid)
        self._parts.events.tell(about, reason, message, warning=warning, now=self._parts.clock())


def leaving(items: Iterable[Json], is_gpu: Callable[[str], bool]) -> Iterator[Json]:
    """Yield those pods of *items* that have to leave a broken node: with GPUs, and nothing else that moves them."""
    ours = {kind.pod_label for kind in KINDS}
    for item in items:
        meta, spec = item["metadata"], item.get("spec") or {}
        owners = {each.get("kind") for each in meta.get("ownerReferences") or ()}
        if (
            "deletionTimestamp" not in meta
            and (item.get("status") or {}).get("phase") not in ENDED
            and not ours & set(meta.get("labels") or {})
            and MIRROR not in (meta.get("annotations") or {})
            and "DaemonSet" not in owners
            and any(is_gpu(resource) for resource in _requested(spec))
        ):
            yield item


def _requested(spec: Json) -> Iterator[str]:
    for group in ("initContainers", "containers"):
        for container in spec.get(group) or ():
            yield from (container.get("resources") or {}).get("limits") or ()
