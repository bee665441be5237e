"""How the pod of a training job is changed before it is made: an init container comes first of all. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from wheeltapper import kubernetes_names as names
from wheeltapper.config import PodPreflightSection
from wheeltapper_operator.api import Json
from wheeltapper_operator.jobs import KINDS

TOKEN_FOLDER = "/var/run/secrets/wheeltapper.dev"  # noqa: S105 - a place

TOKEN_S = 600
"""How long the token is good for: the shortest that the API server makes."""

ROOM = {"cpu": "100m", "memory": "128Mi"}
"""Requested and limited alike, so that a pod of class Guaranteed remains one."""

USER = 65532
"""Nobody in particular, and not root: tenants' namespaces may be held to the restricted Pod Security Standard."""


def mutate(pod: Json, section: PodPreflightSection) -> list[Json]:
    """Return the JSON patch for *pod*, which is about to be made; an empty one for a pod that is none of ours.

    A pod that was changed before is not changed again.
    """
    labels = (pod.get("metadata") or {}).get("labels") or {}
    if not any(kind.pod_label in labels for kind in KINDS) or labels.get(names.PREFLIGHT) == "disabled":
        return []
    patch = list(_last_words(pod["spec"]))
    gpus = requested(pod["spec"], section)
    present = pod["spec"].get("initContainers") or ()
    is_changed = any(each.get("name") == names.PREFLIGHT_CONTAINER for each in present)
    # Without an account there can be no token, and a pod that asks for one all the same is refused.
    if not gpus or is_changed or not pod["spec"].get("serviceAccountName"):
        return patch
    patch += _put(pod["spec"], "initContainers", "0", container(gpus, section))
    patch += _put(pod["spec"], "volumes", "-", _volume())
    return patch


def requested(spec: Json, section: PodPreflightSection) -> dict[str, str]:
    """Return how many GPUs the app containers of a pod ask for in all, by the name of the resource."""
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        limits = (container.get("resources") or {}).get("limits") or {}
        for name, quantity in limits.items():
            if section.is_gpu(name) and str(quantity).isdecimal() and int(quantity) > 0:
                total[name] = total.get(name, 0) + int(quantity)
    return {name: str(count) for name, count in total.items()}


def container(gpus: dict[str, str], section: PodPreflightSection) -> Json:
    """Return the init container that asks for *gpus*: the kubelet gives it those that the app containers get."""
    room = {**ROOM, **gpus}
    return {
        "name": names.PREFLIGHT_CONTAINER,
        "image": section.image,
        "imagePullPolicy": "IfNotPresent",
        "command": [section.python, "-I", "-m", "wheeltapper_hooks.preflight_pod"],
        "env": [
            {"name": "WHEELTAPPER_AGENT_HOST", **_agent(section)},
            {"name": "WHEELTAPPER_AGENT_PORT", "value": str(section.agent_port)},
            {"name": "WHEELTAPPER_DEADLINE_S", "value": str(section.deadline_s)},
        ],
        "resources": {"limits": room, "requests": room},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsGroup": USER,
            "runAsNonRoot": True,
            "runAsUser": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": names.PREFLIGHT_CONTAINER, "mountPath": TOKEN_FOLDER, "readOnly": True}],
    }


def _agent(section: PodPreflightSection) -> Json:
    if section.agent_host:
        return {"value": section.agent_host}
    return {"valueFrom": {"fieldRef": {"fieldPath": "status.hostIP"}}}


def _volume() -> Json:
    token = {"audience": names.AUDIENCE, "expirationSeconds": TOKEN_S, "path": "token"}
    return {"name": names.PREFLIGHT_CONTAINER, "projected": {"sources": [{"serviceAccountToken": token}]}}


def _last_words(spec: Json) -> Iterable[Json]:
    """Yield what makes a failed container's last lines of log its termination message, where it left none itself.

    "File" is what the API server has put there by itself; who asked for it loses nothing: a message in the file counts.
    """
    for number, each in enumerate(spec.get("containers") or ()):
        if each.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            path = f"/spec/containers/{number}/terminationMessagePolicy"
            yield {"op": "add", "path": path, "value": "FallbackToLogsOnError"}


def _put(spec: Json, field: str, where: str, value: Json) -> list[Json]:
    if spec.get(field):
        return [{"op": "add", "path": f"/spec/{field}/{where}", "value": value}]
    return [{"op": "add", "path": f"/spec/{field}", "value": [value]}]
