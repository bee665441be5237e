"""An operator's memory and its first look at 5,000 nodes and 40,000 pods, and what it writes when nothing happens.

The objects are laid straight into etcd, as its own JSON: 45,000 creations would take the API server minutes.
"""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_DNS, uuid5

from tests.bench.harness import Figure, progress
from tests.bench.kubernetes_cluster import Operator, until, writes
from tests.integration.control_plane import ControlPlane
from wheeltapper_operator.api import Api
from wheeltapper_operator.reflector import PAGE

NODES, PODS, GANG = 5_000, 40_000, 8
NODE_BYTES, POD_BYTES = 20_000, 6_000
BATCH = 50
"""Objects of one transaction: a megabyte, of which etcd takes one and a half."""

REST_S = 60.0
IMPORTS = "import wheeltapper_operator.operator, time; print('ready', flush=True); time.sleep(600)"


async def measured(plane: ControlPlane) -> list[Figure]:
    """Return the figures."""
    api = await Api.connect(plane.kubeconfig)
    for name in ("wheeltapper", "team"):
        await api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    await asyncio.to_thread(_fill, plane)
    plain_mb = await asyncio.to_thread(_plain_mb)
    listing_s = await _list_s(api)
    operator = Operator(plane, plane.folder / "operator")
    try:
        await until(lambda: operator.works)
        took = time.monotonic() - operator.began
        before = await writes(api)
        await asyncio.sleep(REST_S)
        after = await writes(api)
        peak, rest = operator.memory_mb("VmHWM"), operator.memory_mb("VmRSS")
    finally:
        operator.end()
        await api.close()
    written = {kind: count - before.get(kind, 0.0) for kind, count in after.items()}
    renewals = written.pop("leases")
    print(f"At rest it holds {rest:.1f} MB.")
    both = NODES + PODS
    return [
        _figure("operator_rss_mb", peak, "MB", "an operator that has seen nothing", plain_mb, both),
        _figure("operator_list_s", took, "s", "the same lists, unread", listing_s, both),
        _figure("writes_at_rest", sum(written.values()), "writes", "renewals of leases", renewals, both),
    ]


def _fill(plane: ControlPlane) -> None:
    done = 0
    for batch in _batches(_objects()):
        puts = [{"requestPut": {"key": _base64(key), "value": _base64(value)}} for key, value in batch]
        request = urllib.request.Request(f"{plane.etcd_url}/v3/kv/txn", json.dumps({"success": puts}).encode())
        with urllib.request.urlopen(request) as answer:
            answer.read()
        done += len(batch)
        progress("objects", done, NODES + PODS)


def _objects() -> Iterator[tuple[str, str]]:
    for number in range(NODES):
        name = f"gpu-{number:05}"
        yield f"/registry/minions/{name}", _text(_node(name), NODE_BYTES)
    for number in range(PODS):
        name = f"train-{number // GANG}-{number % GANG}"
        yield f"/registry/pods/team/{name}", _text(_pod(name, number), POD_BYTES)


def _node(name: str) -> dict[str, Any]:
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"rack-{int(name[4:]) // 20}"}
    status = {"nodeInfo": {"bootID": f"{name}-boot"}, "conditions": [{"type": "Ready", "status": "True"}]}
    return {"kind": "Node", "apiVersion": "v1", "metadata": _meta(name, labels), "spec": {}, "status": status}


def _pod(name: str, number: int) -> dict[str, Any]:
    container = {"name": "main", "image": "localhost/train:1", "resources": {}}
    spec = {"nodeName": f"gpu-{number % NODES:05}", "containers": [container], "restartPolicy": "Never"}
    labels = {"batch.kubernetes.io/job-name": f"train-{number // GANG}"}
    status = {"phase": "Running", "startTime": "2026-11-30T00:00:00Z"}
    meta = {**_meta(name, labels), "namespace": "team"}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": spec, "status": status}


def _meta(name: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "name": name,
        "uid": str(uuid5(NAMESPACE_DNS, name)),
        "creationTimestamp": "2026-11-30T00:00:00Z",
        "labels": labels,
        "annotations": {},
    }


def _text(item: dict[str, Any], size: int) -> str:
    """Return *item* as JSON of *size* bytes, in annotations of the length that real ones have."""
    lines = (size - len(json.dumps(item))) // 100
    item["metadata"]["annotations"] = {f"example.com/part-{line:03}": "x" * 74 for line in range(lines)}
    return json.dumps(item)


def _batches(items: Iterable[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    batch: list[tuple[str, str]] = []
    for item in items:
        batch.append(item)
        if len(batch) == BATCH:
            yield batch
            batch = []


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


async def _list_s(api: Api) -> float:
    """Return the seconds that the bare lists take, page by page, with nothing made of them."""
    began = time.monotonic()
    for path in ("/api/v1/nodes", "/api/v1/pods"):
        proceed: str | None = None
        while True:
            page = await api.get(path, **{"limit": PAGE, "continue": proceed})
            proceed = page["metadata"].get("continue")
            if not proceed:
                break
    return time.monotonic() - began


def _plain_mb() -> float:
    with subprocess.Popen([sys.executable, "-c", IMPORTS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        text = Path(f"/proc/{process.pid}/statm").read_text()
        process.kill()
    return int(text.split()[1]) * 4096 / 1e6


def _figure(name: str, value: float, unit: str, baseline: str, against: float, n: int) -> Figure:
    return Figure(name, round(value, 3), unit, baseline, round(against, 3), round(value / against, 3), n)
