"""Who is asked to leave a node that is out, and what becomes of pods on nodes that do not answer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.operator.fake import FakeApi
from tests.unit.operator.test_gang import pytorch
from tests.unit.operator.test_quarantine import a_node
from wheeltapper import catalogue, config
from wheeltapper_operator.api import ApiError
from wheeltapper_operator.dead_nodes import DeadNodes, stuck
from wheeltapper_operator.eviction import Evictor, leaving
from wheeltapper_operator.jobs import PYTORCH, job
from wheeltapper_operator.objects import Labels
from wheeltapper_operator.objects import node as node_view
from wheeltapper_operator.pace import Pace
from wheeltapper_operator.parts import Parts
from wheeltapper_operator.pods import Pod

NOW = 1_000.0
IS_GPU = config.parse("").kubernetes.preflight.is_gpu


class Api(FakeApi):
    """The fake, which remembers evictions and deletions, and refuses when told to."""

    def __init__(self, *items: dict[str, Any], refuses: ApiError | None = None) -> None:
        super().__init__()
        self.items = list(items)
        self.refuses = refuses
        self.bodies: dict[str, Any] = {}

    async def get(self, path: str, **query: Any) -> dict[str, Any]:
        self._answer("GET", path)
        assert query["fieldSelector"] == "spec.nodeName=n1"
        return {"items": self.items}

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        return await self._take(path, body)

    async def delete(self, path: str, body: Any = None) -> dict[str, Any]:
        return await self._take(path, body)

    async def _take(self, path: str, body: Any) -> dict[str, Any]:
        if self.refuses is not None:
            raise self.refuses
        self.bodies[path] = body
        return {}


class Events:
    """What was told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, str]] = []

    def tell(self, about: Any, reason: str, message: str, *, warning: bool, now: float) -> None:
        self.told.append((reason, message))


def parts(api: Api, text: str = "") -> tuple[Parts, Events]:
    events = Events()
    settings = config.parse(text)
    return Parts(api, settings, catalogue.load(()), Pace(1000.0, 100), events, lambda: True, lambda: NOW), events


def a_pod(name: str = "notebook", gpus: int = 1, phase: str = "Running", **meta: Any) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "1"}}}
    return {
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}", **meta},
        "spec": {"containers": [container]},
        "status": {"phase": phase},
    }


def test_a_running_pod_with_a_gpu_has_to_leave():
    assert [each["metadata"]["name"] for each in leaving([a_pod(), a_pod("next", phase="Pending")], IS_GPU)] == [
        "notebook",
        "next",
    ]


@pytest.mark.parametrize(
    "item",
    [
        a_pod(gpus=0),
        a_pod(phase="Succeeded"),
        a_pod(phase="Failed"),
        a_pod(deletionTimestamp="2026-11-30T00:00:00Z"),
        a_pod(labels={"training.kubeflow.org/job-name": "bert"}),
        a_pod(labels={"batch.kubernetes.io/job-name": "bert"}),
        a_pod(ownerReferences=[{"kind": "DaemonSet"}]),
        a_pod(annotations={"kubernetes.io/config.mirror": "x"}),
    ],
    ids=["no-gpu", "done", "failed", "leaving", "a-rank", "a-job's", "a-daemon", "a-mirror"],
)
def test_who_may_stay(item: dict[str, Any]):
    assert list(leaving([item], IS_GPU)) == []


def test_an_eviction_is_of_the_very_pod_that_was_seen():
    api = Api(a_pod())
    made, events = parts(api)
    asyncio.run(Evictor(made).clear(a_node()))

    (body,) = api.bodies.values()
    assert list(api.bodies) == ["/api/v1/namespaces/ml/pods/notebook/eviction"]
    assert body["deleteOptions"] == {"preconditions": {"uid": "uid-notebook"}}
    assert events.told == [("Evicted", "ml/notebook was asked to leave")]


def test_a_disruption_budget_is_respected_and_told_of_once():
    refusal = ApiError(429, "TooManyRequests", "Cannot evict pod as it would violate the pod's disruption budget.")
    made, events = parts(Api(a_pod(), refuses=refusal))
    evictor = Evictor(made)
    for _ in range(3):
        asyncio.run(evictor.clear(a_node()))

    ((reason, message),) = events.told
    assert reason == "EvictionWaits"
    assert "ml/notebook stays for now" in message
    assert "disruption budget" in message


@pytest.mark.parametrize("status", [404, 409])
def test_a_pod_that_is_gone_meanwhile_is_no_trouble(status: int):
    made, events = parts(Api(a_pod(), refuses=ApiError(status, "", "")))
    asyncio.run(Evictor(made).clear(a_node()))

    assert events.told == []


def test_any_other_refusal_is_told_upwards():
    made, _ = parts(Api(a_pod(), refuses=ApiError(403, "Forbidden", "")))

    with pytest.raises(ApiError):
        asyncio.run(Evictor(made).clear(a_node()))


def rank(name: str, node: str, *, leaving: bool = True) -> Pod:
    return Pod(name, "team", f"uid-{name}", "train", node, "Running", leaving, (), False, 0, 0.0, "")


NODES = {
    "dead": a_node(name="dead", ready=False, unready_since=NOW - 300.0),
    "ill": a_node(name="ill", ready=False, unready_since=NOW - 299.0),
    "well": a_node(name="well"),
}


def test_only_a_pod_that_is_to_end_on_a_node_that_is_silent_for_long_is_stuck():
    ranks = [
        rank("a", "dead"),
        rank("b", "ill"),
        rank("c", "well"),
        rank("d", "gone"),
        rank("e", "dead", leaving=False),
    ]

    assert [each.name for each in stuck(ranks, NODES, NOW - 300.0)] == ["a"]


class Writer:
    """Takes what is told on a job."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def tell(self, _job: Any, reason: str, message: str, *, warning: bool) -> None:
        self.told.append(f"{reason}: {message}")


def cleared(text: str, times: int = 1) -> tuple[Api, list[str]]:
    api, writer = Api(), Writer()
    dead = DeadNodes(parts(api, text)[0], writer, SimpleNamespace(get=NODES.get))
    for _ in range(times):
        asyncio.run(dead.clear(job(pytorch(), PYTORCH), [rank("a", "dead"), rank("f", "dead"), rank("b", "ill")]))
    return api, writer.told


def test_by_default_it_is_only_told_of_and_once():
    api, told = cleared("", times=3)

    assert api.bodies == {}
    assert told == [f"Waits: {name} does not end: its node dead does not answer" for name in ("a", "f")]


def test_where_it_is_configured_they_are_deleted_by_their_uid():
    api, told = cleared("[kubernetes]\ndead_nodes = 'delete_pods'\n")

    assert api.bodies["/api/v1/namespaces/team/pods/a"] == {"gracePeriodSeconds": 0, "preconditions": {"uid": "uid-a"}}
    assert len(api.bodies) == len(told) == 2
    assert "PodDeleted: a is deleted without its node's word" in told[0]


@pytest.mark.parametrize(("status", "since"), [("True", 0.0), ("False", 1_767_225_600.0), ("Unknown", 1_767_225_600.0)])
def test_since_when_a_node_is_not_ready(status: str, since: float):
    ready = {"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    meta = {"name": "n1", "uid": "u", "resourceVersion": "1"}

    assert node_view({"metadata": meta, "status": {"conditions": [ready]}}, Labels("", "")).unready_since == since
