"""A plan as the one write that carries it out.

A node's taints have no merge key: a merge patch would replace those of other controllers. So it is a JSON patch that
holds what was read of the node; whoever changed that since makes it fail, and then the plan is made anew. It does not
hold the node's version: heartbeats and conditions, our own agent's first, change that all the time.
"""

from __future__ import annotations

from typing import Any

from wheeltapper import codec
from wheeltapper import kubernetes_names as names
from wheeltapper_operator.api import Json
from wheeltapper_operator.objects import Node, Taint
from wheeltapper_operator.quarantine import Plan, Step, read_out

CHANGES = frozenset({Step.QUARANTINE, Step.RELEASE, Step.SETTLE})
"""The steps that change a node."""


def of(plan: Plan, node: Node) -> list[Json]:
    """Return the JSON patch of *plan* on *node*."""
    unhealthy = _taint(plan)
    taints = [_json(each) for each in node.taints if each.key != names.TAINT] + ([unhealthy] if unhealthy else [])
    steps = [*_as_read(node), {"op": "add", "path": "/spec/taints", "value": taints}]
    if _cordon(plan, node) != node.cordoned:
        steps.append({"op": "add", "path": "/spec/unschedulable", "value": _cordon(plan, node)})
    if not node.annotated:
        steps.append({"op": "add", "path": "/metadata/annotations", "value": {}})
    if plan.out is not None:
        steps.append(_annotate(names.QUARANTINE, codec.dumps(plan.out)))
    elif node.quarantine:
        steps.append({"op": "remove", "path": _pointer(names.QUARANTINE)})
    steps.append(_annotate(names.HISTORY, "[" + ",".join(codec.dumps(each) for each in plan.history) + "]"))
    return steps


def cleared(node: Node) -> list[Json]:
    """Return the JSON patch after which *node* carries nothing of ours but its condition; empty when it does not."""
    records = {names.QUARANTINE: node.quarantine, names.HISTORY: node.history}
    steps: list[Json] = [{"op": "remove", "path": _pointer(name)} for name, text in records.items() if text]
    if node.taint is not None:
        taints = [_json(each) for each in node.taints if each.key != names.TAINT]
        steps.append({"op": "add", "path": "/spec/taints", "value": taints})
    before = read_out(node.quarantine)
    if before is not None and before.cordoned and node.cordoned:
        steps.append({"op": "add", "path": "/spec/unschedulable", "value": False})
    return [*_as_read(node), *steps] if steps else []


def _as_read(node: Node) -> list[Json]:
    """Return the steps that fail when somebody has changed what a plan for *node* rests on; null is for the absent."""
    known: dict[str, Any] = {
        "/metadata/uid": node.uid,
        "/spec/taints": [_json(each) for each in node.taints] or None,
        "/spec/unschedulable": node.cordoned or None,
    }
    if node.annotated:
        known |= {_pointer(names.QUARANTINE): node.quarantine or None, _pointer(names.HISTORY): node.history or None}
    else:
        known["/metadata/annotations"] = None
    return [{"op": "test", "path": path, "value": value} for path, value in known.items()]


def _cordon(plan: Plan, node: Node) -> bool:
    if plan.out is not None:
        return True
    before = read_out(node.quarantine)
    return node.cordoned and not (before is not None and before.cordoned)


def _taint(plan: Plan) -> Json | None:
    if plan.out is None:
        return None
    return {"key": names.TAINT, "value": plan.out.record.label.replace("/", "."), "effect": "NoSchedule"}


def _json(taint: Taint) -> dict[str, Any]:
    rest = {"value": taint.value, "timeAdded": taint.added}
    return {"key": taint.key, "effect": taint.effect} | {key: value for key, value in rest.items() if value}


def _annotate(name: str, value: str) -> Json:
    return {"op": "add", "path": _pointer(name), "value": value}


def _pointer(name: str) -> str:
    return "/metadata/annotations/" + name.replace("~", "~0").replace("/", "~1")
