"""A stand-in for Kueue: its kind Workload, as far as the operator sees it, and what its controller does with ``spec.active``.

The kind has the fields that a client of Kueue's may use, under their own names; the rest of a Workload is kept unread.
"""

from __future__ import annotations

import json
from typing import Any

from tests.e2e.kubernetes.cluster import Cluster
from wheeltapper_operator import kueue
from wheeltapper_operator.jobs import KUEUE

_GROUP, _, _VERSION = kueue.GROUP.partition("/")
_OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

KIND: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": f"{kueue.PLURAL}.{_GROUP}",
        # What the API server asks of kinds in a group of Kubernetes' own projects.
        "annotations": {"api-approved.kubernetes.io": "unapproved, a stand-in for tests"},
    },
    "spec": {
        "group": _GROUP,
        "scope": "Namespaced",
        "names": {"plural": kueue.PLURAL, "singular": "workload", "kind": "Workload", "listKind": "WorkloadList"},
        "versions": [
            {
                "name": _VERSION,
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {**_OPEN, "properties": {"active": {"type": "boolean", "default": True}}},
                            "status": _OPEN,
                        },
                    }
                },
            }
        ],
    },
}

NAME = f"{kueue.PLURAL}.{_GROUP}"


def queued(job: dict[str, Any]) -> dict[str, Any]:
    """Return the PyTorchJob *job* as one that waits in a queue."""
    job["metadata"]["labels"] = {KUEUE: "team"}
    job["spec"]["runPolicy"]["suspend"] = True
    return job


def workload(job: dict[str, Any]) -> dict[str, Any]:
    """The Workload that Kueue makes of *job*, which the API server has answered with."""
    owner = {"apiVersion": job["apiVersion"], "kind": job["kind"], "controller": True}
    owner |= {key: job["metadata"][key] for key in ("name", "uid")}
    return {
        "apiVersion": kueue.GROUP,
        "kind": "Workload",
        "metadata": {
            "name": f"pytorchjob-{job['metadata']['name']}-0a1b2",
            "namespace": "default",
            "ownerReferences": [owner],
        },
        "spec": {"queueName": "team", "podSets": []},
    }


def rule(cluster: Cluster, name: str) -> None:
    """Do once what Kueue does all the time, with room for everybody: who is active runs, who is not is suspended."""
    (of,) = cluster.objects(NAME)
    job = cluster.get("pytorchjob", name) or {}
    suspend = of["spec"]["active"] is False
    if job["spec"]["runPolicy"]["suspend"] != suspend:
        patch = json.dumps({"spec": {"runPolicy": {"suspend": suspend}}})
        cluster.kubectl("patch", "pytorchjob", name, "--type=merge", f"--patch={patch}", "--field-manager=kueue")
