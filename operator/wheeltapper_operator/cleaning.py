"""Takes everything of ours out of a cluster, before the chart is uninstalled.

First operator and agents are stopped, since they would write it all again; then nodes and jobs get back what they were.
What stays is the record: Interruption objects, and the kinds of both objects.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine

from wheeltapper import kubernetes_names as names
from wheeltapper.errors import SchedulerError
from wheeltapper_operator import gang, kueue, objects, patches
from wheeltapper_operator.api import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, Api, ApiError, Json, path_of
from wheeltapper_operator.jobs import KINDS, Kind, job

log = logging.getLogger(__name__)

GONE_S = 60.0
"""Seconds to wait for pods: of operator and agents, whose grace period is 10, and of a job, where 30 are usual."""

LOOK_S = 0.5
PAGE = 500
TRIES = 5
"""How often one object is tried that others write at the same time: a kubelet writes every 10 s at most."""

OURS = "app.kubernetes.io/component in (operator,agent),app.kubernetes.io/instance="


class SomethingLeftError(SchedulerError):
    """Something of ours is left; the message says what."""


class StillEndingError(SchedulerError):
    """A job that we hold cannot go on yet: some of its pods are still there."""


async def clean(api: Api, namespace: str, release: str, operator: str, agent: str) -> None:
    """Stop the Deployment *operator* and the DaemonSet *agent* of *release*, and take out all that they have written.

    Raises:
        SomethingLeftError: something of ours is left. SchedulerError: the API server does not answer.
    """
    await _stop(api, namespace, release, operator, agent)
    left: list[str] = []
    async for item in _all(api, path_of("v1", "nodes")):
        await _try(left, f"node {item['metadata']['name']}", _clean_node(api, item))
    for kind in KINDS:
        async for item in _all(api, kind.path()):
            meta = item["metadata"]
            await _try(left, f"{kind.name} {meta['namespace']}/{meta['name']}", _clean_job(api, kind, item))
    await _clean_workloads(api, left)
    await _delete(api, path_of(names.GROUP, "nodehealths"))
    await _delete(api, path_of("coordination.k8s.io/v1", "leases", namespace, names.LEASE))
    if left:
        raise SomethingLeftError(f"something of ours is left on {', '.join(left)}")
    log.info("Nothing of ours is left on nodes and jobs.")


async def _stop(api: Api, namespace: str, release: str, operator: str, agent: str) -> None:
    for plural, name in (("deployments", operator), ("daemonsets", agent)):
        await _delete(api, path_of("apps/v1", plural, namespace, name), {"propagationPolicy": "Background"})
    deadline = time.monotonic() + GONE_S
    while pods := [item async for item in _all(api, path_of("v1", "pods", namespace), labelSelector=OURS + release)]:
        if time.monotonic() > deadline:
            # On a node that is gone; its agent has lost its token with its pod, and can write no more.
            log.warning("These pods do not end: %s.", ", ".join(sorted(item["metadata"]["name"] for item in pods)))
            return
        await asyncio.sleep(LOOK_S)


async def _clean_node(api: Api, item: Json) -> None:
    path = path_of("v1", "nodes", name=item["metadata"]["name"])
    for attempt in range(TRIES):
        steps = patches.cleared(objects.node(item, objects.Labels("", "")))
        try:
            if steps:
                await api.patch(path, steps, JSON_PATCH, fieldManager=names.MANAGER)
                log.info("%s: taint, cordon and annotations of ours are gone", item["metadata"]["name"])
            break
        except ApiError as error:
            if not error.is_conflict or attempt == TRIES - 1:
                raise
            item = await api.get(path)
    conditions = (item.get("status") or {}).get("conditions") or ()
    if any(each["type"] == names.CONDITION for each in conditions):
        gone = {"status": {"conditions": [{"$patch": "delete", "type": names.CONDITION}]}}
        await api.patch(f"{path}/status", gone, STRATEGIC_PATCH, fieldManager=names.MANAGER)


async def _clean_job(api: Api, kind: Kind, item: Json) -> None:
    if not set(gang.OURS) & set(item["metadata"].get("annotations") or {}):
        return
    for attempt in range(TRIES):
        view = job(item, kind)
        patch = gang.cleared(view, kind)
        if "spec" in patch:
            await _until_gone(api, kind, view.namespace, view.name)
        try:
            await api.patch(kind.path(view), patch, MERGE_PATCH, fieldManager=names.MANAGER)
        except ApiError as error:
            if not error.is_conflict or attempt == TRIES - 1:
                raise
            item = await api.get(kind.path(view))
        else:
            return


async def _clean_workloads(api: Api, left: list[str]) -> None:
    try:
        group = await kueue.served(api)
    except ApiError as error:
        if error.status == 404:
            return
        raise
    async for item in _all(api, path_of(group, kueue.PLURAL)):
        meta = item["metadata"]
        if names.ORDER in (meta.get("annotations") or {}):
            await _try(left, f"Workload {meta['namespace']}/{meta['name']}", _clean_workload(api, group, item))


async def _clean_workload(api: Api, group: str, item: Json) -> None:
    path = path_of(group, kueue.PLURAL, item["metadata"]["namespace"], item["metadata"]["name"])
    for attempt in range(TRIES):
        view = kueue.workload(item)
        if view is None:
            return
        patch = kueue.cleared(view)
        if patch["spec"]["active"] and not view.active:
            kind = next(each for each in KINDS if each.name == view.kind)
            await _until_gone(api, kind, view.namespace, view.job)
        try:
            await api.patch(path, patch, MERGE_PATCH, fieldManager=names.MANAGER)
        except ApiError as error:
            if not error.is_conflict or attempt == TRIES - 1:
                raise
            item = await api.get(path)
        else:
            return


async def _until_gone(api: Api, kind: Kind, namespace: str, name: str) -> None:
    """Wait until no pod of a job is left: one that goes on while its old pods end may fail for good."""
    deadline = time.monotonic() + GONE_S
    query = {"labelSelector": f"{kind.pod_label}={name}"}
    while pods := [item async for item in _all(api, path_of("v1", "pods", namespace), **query)]:
        if time.monotonic() > deadline:
            left = ", ".join(sorted(item["metadata"]["name"] for item in pods))
            raise StillEndingError(f"it is held until its pods have ended, and these have not: {left}")
        await asyncio.sleep(LOOK_S)


async def _try(left: list[str], what: str, work: Coroutine[None, None, None]) -> None:
    try:
        await work
    except (ApiError, StillEndingError) as error:
        if not (isinstance(error, ApiError) and error.status == 404):
            log.warning("%s: %s", what, error)
            left.append(what)


async def _delete(api: Api, path: str, body: Json | None = None) -> None:
    try:
        await api.delete(path, body)
    except ApiError as error:
        if error.status != 404:
            raise


async def _all(api: Api, path: str, **query: str) -> AsyncIterator[Json]:
    """Yield all objects at *path*; none where the cluster does not know their kind."""
    proceed: str | None = None
    while True:
        try:
            page = await api.get(path, limit=PAGE, **query, **{"continue": proceed})
        except ApiError as error:
            if error.status == 404:
                return
            raise
        for item in page.get("items") or ():
            yield item
        proceed = page["metadata"].get("continue") or None
        if proceed is None:
            return
