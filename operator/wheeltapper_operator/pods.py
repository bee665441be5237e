"""Pods of training jobs: what they were when they ended, kept from the one event that tells it.

A failed pod may be deleted a second after it failed, and its log with it. So whatever an event says of an end is kept
at once, as the JSON that ``wheeltapper diagnose`` reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from sys import intern

import orjson

from wheeltapper import kubernetes_names as names
from wheeltapper.inputs.naming import moment
from wheeltapper_operator.api import Json

_KEPT = ("phase", "reason", "message", "conditions", "containerStatuses", "initContainerStatuses", "startTime")


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of a job. ``failed`` are its containers that ended badly, as name and restart count.

    ``record`` is the pod as JSON if something ended badly, else empty. ``exit_code`` is that of the first of them, and
    ``started`` (Unix seconds) when what ended had begun: it tells to which attempt it belongs. ``kept_off`` says that
    its preflight, the last that is known of it, did not let it start: a pod's own word, which convicts no node.
    """

    name: str
    namespace: str
    uid: str
    job: str
    node: str
    phase: str
    leaving: bool
    failed: tuple[tuple[str, int], ...]
    disrupted: bool
    exit_code: int
    started: float
    record: str
    kept_off: bool = False

    @property
    def job_key(self) -> str:
        """``namespace/name`` of its job."""
        return f"{self.namespace}/{self.job}"

    @property
    def ended_badly(self) -> bool:
        """True when something in it failed, or somebody ended it."""
        return self.phase == "Failed" or bool(self.failed) or self.disrupted


@dataclass(frozen=True, slots=True)
class _Failure:
    container: str
    restarts: int
    exit_code: int
    started: float


def pod(item: Json, label: str) -> Pod:
    """Return the view of a pod; *label* is the one that names its job.

    There are tens of thousands, and few names of jobs and nodes among them: each such name is held once.
    """
    meta, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    failed = tuple(_failed(status))
    disrupted = any(
        each.get("type") == "DisruptionTarget" and each.get("status") == "True"
        for each in status.get("conditions") or ()
    )
    view = Pod(
        name=meta["name"],
        namespace=intern(meta["namespace"]),
        uid=meta["uid"],
        job=intern(meta.get("labels", {}).get(label, "")),
        node=intern(spec.get("nodeName") or ""),
        phase=intern(status.get("phase") or ""),
        leaving="deletionTimestamp" in meta,
        failed=tuple((each.container, each.restarts) for each in failed),
        disrupted=disrupted,
        exit_code=failed[0].exit_code if failed else 0,
        started=max([moment(meta.get("creationTimestamp", "")) or 0.0, *(each.started for each in failed)]),
        record="",
        kept_off=_is_kept_off(status),
    )
    return with_record(view, item) if view.ended_badly else view


def with_record(view: Pod, item: Json) -> Pod:
    """Return *view* with what readers of evidence need of *item*."""
    meta, status = item["metadata"], item.get("status") or {}
    kept = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"], "labels": meta.get("labels", {})},
        "spec": {"nodeName": view.node},
        "status": {key: status[key] for key in _KEPT if key in status},
    }
    return replace(view, record=orjson.dumps(kept, option=orjson.OPT_INDENT_2).decode())


def _is_kept_off(status: Json) -> bool:
    for container in status.get("initContainerStatuses") or ():
        if container.get("name") == names.PREFLIGHT_CONTAINER:
            now, before = container.get("state") or {}, container.get("lastState") or {}
            ended = now.get("terminated") or before.get("terminated") or {}
            return bool(ended.get("exitCode") == names.KEPT_OFF)
    return False


def _failed(status: Json) -> Iterator[_Failure]:
    """Yield each container that ended badly, now or before a restart in place."""
    for group in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(group) or ():
            for state in ("state", "lastState"):
                ended = (container.get(state) or {}).get("terminated")
                if ended and ended.get("exitCode"):
                    restarts = int(container.get("restartCount") or 0)
                    started = moment(ended.get("startedAt") or "") or 0.0
                    yield _Failure(container["name"], restarts, int(ended["exitCode"]), started)
                    break
