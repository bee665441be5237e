"""The pods of a gang that moves, on a node that does not answer: nobody there ends them, and the gang waits for them.

The default only says so, for a person to act: a node that is silent may still run, and write. Where the configuration
wants it, they are deleted without the kubelet's word.
"""

from __future__ import annotations

from collections.abc import Iterable

from wheeltapper_operator.api import ApiError, path_of
from wheeltapper_operator.jobs import Job
from wheeltapper_operator.jobwriter import JobWriter
from wheeltapper_operator.objects import Node
from wheeltapper_operator.parts import Parts
from wheeltapper_operator.pods import Pod
from wheeltapper_operator.reflector import Reflector


class DeadNodes:
    """What becomes of pods there."""

    def __init__(self, parts: Parts, writer: JobWriter, nodes: Reflector[Node]) -> None:
        self._parts = parts
        self._writer = writer
        self._nodes = nodes
        self._told: dict[str, set[str]] = {}

    async def clear(self, job: Job, pods: Iterable[Pod]) -> None:
        """Do with those of *pods* that cannot end by themselves what the configuration says.

        Raises:
            SchedulerError: the API server does not answer, or refuses.
        """
        section = self._parts.settings.kubernetes
        for pod in stuck(pods, self._nodes, self._parts.clock() - section.dead_after_s):
            if section.dead_nodes == "delete_pods":
                await self._delete(job, pod)
            else:
                self._tell(job, "Waits", f"{pod.name} does not end: its node {pod.node} does not answer")

    def forget(self, job: Job) -> None:
        """*job* waits no more."""
        self._told.pop(job.key, None)

    async def _delete(self, job: Job, pod: Pod) -> None:
        await self._parts.turn()
        path = path_of("v1", "pods", pod.namespace, pod.name)
        try:
            await self._parts.api.delete(path, {"gracePeriodSeconds": 0, "preconditions": {"uid": pod.uid}})
        except ApiError as error:
            if error.is_conflict or error.status == 404:
                return  # it is gone, or another has its name
            raise
        self._tell(job, "PodDeleted", f"{pod.name} is deleted without its node's word: {pod.node} does not answer")

    def _tell(self, job: Job, reason: str, message: str) -> None:
        told = self._told.setdefault(job.key, set())
        if message in told:
            return
        told.add(message)
        self._writer.tell(job, reason, message, warning=True)


def stuck(pods: Iterable[Pod], nodes: Reflector[Node], dead_since: float) -> list[Pod]:
    """Return those of *pods* that are to end, on nodes that were not ready since before *dead_since* (Unix seconds)."""
    return [pod for pod in pods if pod.leaving and _is_dead(nodes.get(pod.node), dead_since)]


def _is_dead(node: Node | None, dead_since: float) -> bool:
    # A node that the cluster no longer knows is the garbage collector's: it deletes what ran there.
    return node is not None and not node.ready and 0.0 < node.unready_since <= dead_since
