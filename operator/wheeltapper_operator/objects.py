"""The operator's view of the cluster: of each object only what decisions need, frozen, made from the server's JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from wheeltapper import codec
from wheeltapper import kubernetes_names as names
from wheeltapper.evidence import Finding
from wheeltapper.inputs.naming import moment
from wheeltapper.verdict import State
from wheeltapper_operator.api import Json


@dataclass(frozen=True, slots=True)
class Taint:
    """One taint of a node, whoever put it there."""

    key: str
    value: str
    effect: str
    added: str = ""


@dataclass(frozen=True, slots=True)
class Node:
    """A node, without its version: a heartbeat is no change.

    ``quarantine`` and ``history`` are our own records on it, as they stand there. ``pool`` and ``domain`` are what the
    configured labels say; ``boot_id`` is the kubelet's word for its boot; ``annotated`` says whether it has any
    annotation at all, which a JSON patch must know; ``unready_since`` (Unix seconds) is the cluster's word for when it
    fell silent or ill, 0 while it is ready.
    """

    name: str
    uid: str
    cordoned: bool
    taints: tuple[Taint, ...]
    quarantine: str
    history: str
    pool: str
    domain: str
    boot_id: str
    ready: bool
    annotated: bool
    unready_since: float = 0.0

    @property
    def taint(self) -> Taint | None:
        """Our own taint on it."""
        return next((each for each in self.taints if each.key == names.TAINT), None)


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """What a node's agent says of it; ``since`` (Unix seconds) is when it came into this state."""

    name: str
    boot_id: str
    state: State
    since: float
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class Labels:
    """Which labels of a node name its pool and its failure domain."""

    pool: str
    domain: str


def node(item: Json, labels: Labels) -> Node:
    """Return the view of a Node."""
    meta, spec, status = item["metadata"], item.get("spec") or {}, item.get("status") or {}
    annotations: Mapping[str, str] = meta.get("annotations") or {}
    named: Mapping[str, str] = meta.get("labels") or {}
    said: Json = next((each for each in status.get("conditions") or () if each.get("type") == "Ready"), {})
    ready = said.get("status") == "True"
    return Node(
        name=meta["name"],
        uid=meta["uid"],
        cordoned=bool(spec.get("unschedulable")),
        taints=tuple(
            Taint(each["key"], each.get("value") or "", each.get("effect") or "", each.get("timeAdded") or "")
            for each in spec.get("taints") or ()
        ),
        quarantine=annotations.get(names.QUARANTINE, ""),
        history=annotations.get(names.HISTORY, ""),
        pool=named.get(labels.pool, ""),
        domain=named.get(labels.domain, ""),
        boot_id=(status.get("nodeInfo") or {}).get("bootID", ""),
        annotated=bool(annotations),
        ready=ready,
        unready_since=0.0 if ready else moment(said.get("lastTransitionTime") or "") or 0.0,
    )


def node_health(item: Json) -> NodeHealth | None:
    """Return the view of a NodeHealth; None where its agent has not said anything that is understood."""
    status = item.get("status") or {}
    try:
        return NodeHealth(
            name=item["metadata"]["name"],
            boot_id=str(status["bootID"]),
            state=State(status["verdict"]),
            since=float(status["since"]),
            findings=tuple(codec.load(Finding, each) for each in status.get("findings") or ()),
        )
    except (KeyError, ValueError, TypeError, ValidationError):
        return None
