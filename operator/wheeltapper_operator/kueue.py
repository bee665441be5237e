"""Jobs that Kueue suspends and resumes: it is told to by ``spec.active`` of the job's Workload, and by nothing else.

``active: false`` has Kueue suspend the job and give its quota back; ``true`` has it queue again. The order stands on
the Workload too while it is inactive, in the same write: so an inactive Workload without it was a person's doing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from wheeltapper import kubernetes_names as names
from wheeltapper_operator import gang
from wheeltapper_operator.api import MERGE_PATCH, Api, Json, path_of
from wheeltapper_operator.jobs import KINDS, Job
from wheeltapper_operator.parts import Parts
from wheeltapper_operator.reflector import Change, Reflector

GROUP = "kueue.x-k8s.io"

VERSIONS = ("v1beta2", "v1beta1")
"""The versions of its API that we speak, the better one first: what we read and write is the same in both.

Kueue serves v1beta1 from 0.3 on, and v1beta2 from 0.15 on. Of those that keep their objects in v1beta2, some (0.16.0 to
0.16.6, 0.17.0, 0.17.1) refuse any change of an admitted Workload through v1beta1 (kubernetes-sigs/kueue, pull 10594).
"""

PLURAL = "workloads"


@dataclass(frozen=True, slots=True)
class Workload:
    """What Kueue holds for one job. ``order`` is our own annotation on it, as it stands there."""

    namespace: str
    name: str
    version: str
    owner: str
    """The UID of its job."""
    job: str
    kind: str
    active: bool
    finished: bool
    order: str


async def served(api: Api) -> str:
    """Return the group and version in which *api* serves Workloads: the best of those that we speak.

    Raises:
        ApiError: with status 404, there is no Kueue. SchedulerError: the API server does not answer.
    """
    found = await api.get(f"/apis/{GROUP}")
    offered = {each["version"] for each in found.get("versions") or ()}
    return f"{GROUP}/{next((each for each in VERSIONS if each in offered), VERSIONS[0])}"


def workload(item: Json) -> Workload | None:
    """Return the view of a Workload; None when it is of no kind of job that the operator looks after."""
    meta, spec = item["metadata"], item.get("spec") or {}
    kinds = {kind.name for kind in KINDS}
    owner = next((each for each in meta.get("ownerReferences") or () if each.get("kind") in kinds), None)
    if owner is None:
        return None
    conditions = (item.get("status") or {}).get("conditions") or ()
    annotations: Mapping[str, str] = meta.get("annotations") or {}
    return Workload(
        namespace=meta["namespace"],
        name=meta["name"],
        version=meta["resourceVersion"],
        owner=owner["uid"],
        job=owner["name"],
        kind=owner["kind"],
        active=spec.get("active") is not False,
        finished=any(each.get("type") == "Finished" and each.get("status") == "True" for each in conditions),
        order=annotations.get(names.ORDER, ""),
    )


def deactivated(of: Workload, order: str) -> Json:
    """Return the merge patch that has Kueue suspend the job of *of* for *order*."""
    return _patch(of, order, active=False)


def activated(of: Workload) -> Json:
    """Return the merge patch that has Kueue queue the job of *of* again."""
    return _patch(of, None, active=True)


def forgotten(of: Workload) -> Json:
    """Return the merge patch after which *of* carries nothing of ours, and is as active as it is now."""
    return _patch(of, None, active=of.active)


def cleared(of: Workload) -> Json:
    """Return the merge patch after which *of* carries nothing of ours, and queues again if it was we who held it."""
    order = gang.order_in(of.order)
    return forgotten(of) if order is None or order.stop else activated(of)


def _patch(of: Workload, order: str | None, *, active: bool) -> Json:
    # With the version that was read: whoever changed it meanwhile makes this fail, and it is thought over again.
    meta = {"resourceVersion": of.version, "annotations": {names.ORDER: order}}
    return {"metadata": meta, "spec": {"active": active}}


def seen(job: Job, of: Workload | None) -> Job:
    """Return *job* as its Workload *of* shows it: whether Kueue may run it, and why we may not touch it."""
    if not job.queued or job.leave_alone:
        return job
    if of is None:
        return replace(job, leave_alone="it is Kueue's, and Kueue has no Workload for it")
    if of.finished or job.failed:
        return replace(job, suspended=not of.active, leave_alone="it is Kueue's, and for Kueue it has ended")
    return replace(job, suspended=not of.active, stopping=not of.active and not job.suspended)


class Kueue:
    """The Workloads of one cluster; none where there is no Kueue."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._of: defaultdict[str, dict[str, Workload]] = defaultdict(dict)
        self.listeners: list[Callable[[Workload], None]] = []
        self.workloads = Reflector(parts.api, f"/apis/{GROUP}", workload, self._hear, find=self._where)

    def seen(self, job: Job) -> Job:
        """Return *job* as its Workload shows it."""
        if job.queued and not self.workloads.synced.is_set():
            return replace(job, leave_alone=job.leave_alone or "it is Kueue's, and its Workload cannot be seen")
        return seen(job, self._find(job))

    async def suspend(self, job: Job) -> bool:
        """Have Kueue suspend *job* for the order on it; return False when somebody else had done so before us.

        Raises:
            SchedulerError: the API server does not answer, or the Workload was changed meanwhile.
        """
        of = self._find(job)
        if of is None:
            return False
        if of.active:
            await self._write(of, deactivated(of, job.order))
            return True
        return of.order == job.order

    async def resume(self, job: Job) -> None:
        """Have Kueue queue *job* again.

        Raises:
            SchedulerError: the API server does not answer, or the Workload was changed meanwhile.
        """
        of = self._find(job)
        if of is not None and of.order:
            await self._write(of, activated(of))

    async def forget(self, job: Job) -> None:
        """Leave the Workload of *job* as it is, and nothing of ours on it.

        Raises:
            SchedulerError: the API server does not answer, or the Workload was changed meanwhile.
        """
        of = self._find(job)
        if of is not None and of.order:
            await self._write(of, forgotten(of))

    def _find(self, job: Job) -> Workload | None:
        """Return the Workload of *job*: the one that has not finished, where Kueue has replaced one by another."""
        found = self._of.get(job.uid, {}).values()
        return min(found, key=lambda each: each.finished, default=None)

    async def _where(self) -> str:
        return path_of(await served(self._parts.api), PLURAL)

    async def _write(self, of: Workload, patch: Json) -> None:
        # Asked at each write, of which there are two for an order: a watch goes on where Kueue was upgraded meanwhile.
        path = path_of(await served(self._parts.api), PLURAL, of.namespace, of.name)
        await self._parts.turn()
        self.workloads.put(await self._parts.api.patch(path, patch, MERGE_PATCH, fieldManager=names.MANAGER))

    def _hear(self, change: Change[Workload]) -> None:
        one = change.new or change.old
        if one is None:
            return
        self._of[one.owner][one.name] = one
        if change.new is None:
            del self._of[one.owner][one.name]
            if not self._of[one.owner]:
                del self._of[one.owner]
        for listener in self.listeners:
            listener(one)
