"""Training jobs of several kinds behind one shape: how each is read, suspended, revived and sent on.

A new kind (TrainJob, JobSet) is one more :class:`Kind`; nothing else in the operator knows kinds apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wheeltapper import kubernetes_names as names
from wheeltapper_operator.api import Json, path_of

KUEUE = "kueue.x-k8s.io/queue-name"
"""A job with this label is Kueue's: Kueue alone suspends and resumes it, and is told to by way of its Workload."""


@dataclass(frozen=True, slots=True)
class Job:
    """A training job, with our own records on it as they are: ``attempts``, ``order``, ``excluded``, ``avoided``.

    ``restart`` are the restart policies of its pods; ``leave_alone`` says why we may not touch it, and is empty when we
    may; ``wish`` is what its user has asked for. ``queued`` says that Kueue alone suspends and resumes it, and
    ``stopping`` that Kueue was told to suspend it and has not done so yet.
    """

    kind: str
    namespace: str
    name: str
    uid: str
    version: str
    suspended: bool
    failed: bool
    succeeded: bool
    restart: frozenset[str]
    leave_alone: str
    attempts: str
    order: str
    excluded: str
    wish: bool | None
    avoided: str = ""
    queued: bool = False
    stopping: bool = False

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of job. ``templates`` returns the pod templates of a job's JSON, by the way to them."""

    name: str
    group: str
    plural: str
    pod_label: str
    suspend: tuple[str, ...]
    templates: Callable[[Json], Mapping[tuple[str, ...], Json]]
    revives: bool
    """A job that has failed can be made to run again under the same UID."""
    excludes: bool
    """The templates of a suspended job may be changed."""

    def path(self, job: Job | None = None, sub: str = "") -> str:
        """Return the path of *job*, or of all jobs of this kind."""
        if job is None:
            return path_of(self.group, self.plural)
        return path_of(self.group, self.plural, job.namespace, job.name, sub)

    def suspension(self, value: bool) -> Json:  # noqa: FBT001 - it is the value
        """Return the part of a merge patch that suspends or resumes a job."""
        patch: Json | bool = value
        for key in reversed(self.suspend):
            patch = {key: patch}
        return patch if isinstance(patch, dict) else {}


def _pytorch_templates(item: Json) -> Mapping[tuple[str, ...], Json]:
    replicas = item["spec"].get("pytorchReplicaSpecs") or {}
    return {
        ("spec", "pytorchReplicaSpecs", name, "template"): each.get("template") or {} for name, each in replicas.items()
    }


def _batch_templates(item: Json) -> Mapping[tuple[str, ...], Json]:
    return {("spec", "template"): item["spec"].get("template") or {}}


PYTORCH = Kind(
    "PyTorchJob",
    "kubeflow.org/v1",
    "pytorchjobs",
    "training.kubeflow.org/job-name",
    ("spec", "runPolicy", "suspend"),
    _pytorch_templates,
    revives=True,
    excludes=True,
)

BATCH = Kind(
    "Job",
    "batch/v1",
    "jobs",
    "batch.kubernetes.io/job-name",
    ("spec", "suspend"),
    _batch_templates,
    revives=False,
    # Only before its first start (validation of batch/v1): the taint alone keeps it off a node.
    excludes=False,
)

KINDS = (PYTORCH, BATCH)


def job(item: Json, kind: Kind) -> Job:
    """Return the view of a job of *kind*."""
    meta, spec = item["metadata"], item["spec"]
    annotations: Mapping[str, str] = meta.get("annotations") or {}
    conditions = (item.get("status") or {}).get("conditions") or ()
    true = {each["type"] for each in conditions if each.get("status") == "True"}
    return Job(
        kind=kind.name,
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        version=meta["resourceVersion"],
        suspended=_at(item, kind.suspend) is True,
        failed="Failed" in true,
        succeeded=bool(true & {"Succeeded", "Complete"}),
        restart=_restart(item, kind),
        leave_alone=_leave_alone(spec),
        attempts=annotations.get(names.ATTEMPTS, ""),
        order=annotations.get(names.ORDER, ""),
        excluded=annotations.get(names.EXCLUDED, ""),
        wish={"on": True, "off": False}.get(annotations.get(names.WISH, "")),
        avoided=annotations.get(names.AVOIDED, ""),
        queued=KUEUE in (meta.get("labels") or {}),
    )


def _restart(item: Json, kind: Kind) -> frozenset[str]:
    replicas = item["spec"].get("pytorchReplicaSpecs") or {}
    if replicas:
        return frozenset(each.get("restartPolicy") or "OnFailure" for each in replicas.values())
    return frozenset((each.get("spec") or {}).get("restartPolicy") or "Never" for each in kind.templates(item).values())


def _leave_alone(spec: Json) -> str:
    policy = spec.get("runPolicy") or {}
    manager = policy.get("managedBy") or spec.get("managedBy") or ""
    if manager and manager not in {"kubeflow.org/training-operator", "kubernetes.io/job-controller"}:
        return f"it is managed by {manager}"
    if spec.get("elasticPolicy"):
        return "it is elastic, and goes on without the ranks that it lost"
    return ""


def _at(item: Json, way: tuple[str, ...]) -> object:
    place: object = item
    for key in way:
        place = place.get(key) if isinstance(place, dict) else None
    return place


def read_names(text: str) -> tuple[str, ...]:
    """Return the list of names in an annotation; nothing when it holds none."""
    try:
        found = json.loads(text) if text else []
    except ValueError:
        return ()
    return tuple(str(each) for each in found) if isinstance(found, list) else ()
