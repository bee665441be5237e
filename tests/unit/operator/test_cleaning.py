"""What an uninstall takes out of a cluster, and what it leaves alone."""

from __future__ import annotations

import asyncio
import copy
from types import SimpleNamespace
from typing import Any

import pytest

from tests.unit.operator.fake import FakeApi
from wheeltapper import codec
from wheeltapper import kubernetes_names as names
from wheeltapper.ledger.model import Outcome, Quarantine
from wheeltapper_operator import cleaning, gang
from wheeltapper_operator.api import ApiError
from wheeltapper_operator.gang import Order, Stage
from wheeltapper_operator.quarantine import Out

OURS = {"key": names.TAINT, "value": "hardware.gpu_xid", "effect": "NoSchedule"}
OTHERS = {"key": "example.com/dedicated", "value": "ml", "effect": "NoSchedule"}


class Api(FakeApi):
    """The fake, with patches that are remembered and an answer to deletions."""

    def __init__(self) -> None:
        super().__init__()
        self.patches: dict[str, Any] = {}
        self.deleted: list[str] = []
        self.conflicts = 0

    async def patch(self, path: str, body: Any, kind: str, **query: Any) -> dict[str, Any]:
        if self.conflicts:
            self.conflicts -= 1
            raise ApiError(409, "Conflict", path)
        self.patches[path] = copy.deepcopy(body)
        return {}

    async def delete(self, path: str, body: Any = None) -> dict[str, Any]:
        self.deleted.append(path)
        if path.endswith("/wt-agent"):
            raise ApiError(404, "NotFound", path)
        return {}


def quarantined(*, cordoned: bool) -> str:
    record = Quarantine("n1", "k", "hardware/gpu_xid", "xid=79", "why", None, 1.0, Outcome.DONE)
    return codec.dumps(Out(record, cordoned=cordoned))


def node(api: Api, name: str, *, annotations: dict[str, str], taints: list[Any], conditions: tuple[str, ...]) -> None:
    api.set("/api/v1/nodes", name, spec={"taints": taints, "unschedulable": True})
    item = api.objects[f"/api/v1/nodes/{name}"]
    item["metadata"]["annotations"] = annotations
    item["status"] = {"conditions": [{"type": each, "status": "True"} for each in conditions]}


def clean(api: Api) -> None:
    asyncio.run(cleaning.clean(api, "gpus", "wt", "wt-operator", "wt-agent"))  # type: ignore[arg-type]


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.mark.parametrize("cordoned", [True, False], ids=["our-cordon", "a-persons-cordon"])
def test_a_node_gets_back_what_it_was(api: Api, cordoned: bool) -> None:
    ours = {names.QUARANTINE: quarantined(cordoned=cordoned), names.HISTORY: "[]", "other": "x"}
    node(api, "n1", annotations=ours, taints=[OTHERS, OURS], conditions=("Ready", names.CONDITION))
    clean(api)

    steps = {step["path"]: step for step in api.patches["/api/v1/nodes/n1"] if step["op"] != "test"}
    assert steps["/spec/taints"]["value"] == [OTHERS]
    assert ("/spec/unschedulable" in steps) is cordoned
    assert {path for path, step in steps.items() if step["op"] == "remove"} == {
        "/metadata/annotations/wheeltapper.dev~1quarantine",
        "/metadata/annotations/wheeltapper.dev~1history",
    }
    assert api.patches["/api/v1/nodes/n1/status"] == {
        "status": {"conditions": [{"$patch": "delete", "type": names.CONDITION}]}
    }


def test_a_node_without_anything_of_ours_is_not_written(api: Api) -> None:
    node(api, "n2", annotations={"other": "x"}, taints=[OTHERS], conditions=("Ready",))
    clean(api)

    assert api.patches == {}


def test_operator_and_agents_go_first_and_lease_and_healths_last(api: Api) -> None:
    clean(api)

    assert api.deleted == [
        "/apis/apps/v1/namespaces/gpus/deployments/wt-operator",
        "/apis/apps/v1/namespaces/gpus/daemonsets/wt-agent",
        "/apis/wheeltapper.dev/v1alpha1/nodehealths",
        "/apis/coordination.k8s.io/v1/namespaces/gpus/leases/wheeltapper-operator",
    ]


@pytest.mark.parametrize(("suspended", "resumes"), [(True, True), (False, False)])
def test_a_job_in_the_middle_of_a_requeue_goes_on(api: Api, suspended: bool, resumes: bool) -> None:
    path = "/apis/kubeflow.org/v1/pytorchjobs"
    api.set(path, "train", spec={"runPolicy": {"suspend": suspended}, "pytorchReplicaSpecs": {}})
    meta = api.objects[f"{path}/train"]["metadata"]
    order = Order("train", 1, 0.0, (), Stage.SUSPENDED)
    meta |= {"namespace": "ml", "annotations": {names.ORDER: codec.dumps(order), names.WISH: "on"}}
    clean(api)

    patch = api.patches["/apis/kubeflow.org/v1/namespaces/ml/pytorchjobs/train"]
    assert patch["metadata"]["annotations"] == dict.fromkeys(gang.OURS)
    assert (patch.get("spec") == {"runPolicy": {"suspend": False}}) is resumes


def test_a_node_that_somebody_else_writes_all_the_time_is_named(api: Api) -> None:
    node(api, "n1", annotations={names.HISTORY: "[]"}, taints=[], conditions=())
    api.conflicts = cleaning.TRIES

    with pytest.raises(cleaning.SomethingLeftError, match="node n1"):
        clean(api)


def test_a_workload_of_kueues_that_we_hold_queues_again_and_others_are_not_written(api: Api) -> None:
    path = "/apis/kueue.x-k8s.io/v1beta2/workloads"
    api.objects["/apis/kueue.x-k8s.io"] = {"versions": [{"version": "v1beta1"}, {"version": "v1beta2"}]}
    order = codec.dumps(Order("train", 1, 0.0, ()))
    for name, carried in (("held", {names.ORDER: order}), ("a-persons", {})):
        item = api.set(path, name, spec={"active": False})
        owner = {"kind": "PyTorchJob", "name": "train", "uid": "train"}
        item["metadata"] |= {"namespace": "ml", "annotations": carried, "ownerReferences": [owner]}
    clean(api)

    ((written, patch),) = api.patches.items()
    assert written == "/apis/kueue.x-k8s.io/v1beta2/namespaces/ml/workloads/held"
    assert patch["spec"] == {"active": True}
    assert patch["metadata"]["annotations"] == {names.ORDER: None}


def held(api: Api, **spec: Any) -> None:
    """Put a job there that we have suspended, and one of its pods."""
    order = codec.dumps(Order("train", 1, 0.0, (), Stage.SUSPENDED))
    jobs = "/apis/kubeflow.org/v1/pytorchjobs"
    item = api.set(jobs, "train", spec={"runPolicy": {"suspend": True}, "pytorchReplicaSpecs": {}})
    item["metadata"] |= {"namespace": "ml", "annotations": {names.ORDER: order}, **spec}
    api.set("/api/v1/namespaces/ml/pods", "train-master-0")


@pytest.mark.parametrize("queued", [False, True], ids=["ours to resume", "Kueue's"])
def test_a_job_that_we_hold_goes_on_when_its_pods_are_gone(
    api: Api, monkeypatch: pytest.MonkeyPatch, queued: bool
) -> None:
    held(api, labels={"kueue.x-k8s.io/queue-name": "q"} if queued else {})
    resumed, group = "/apis/kubeflow.org/v1/namespaces/ml/pytorchjobs/train", "/apis/kueue.x-k8s.io"
    if queued:
        resumed = f"{group}/v1beta2/namespaces/ml/workloads/w"
        api.objects[group] = {"versions": [{"version": "v1beta2"}]}
        owner = {"kind": "PyTorchJob", "name": "train", "uid": "train"}
        order = codec.dumps(Order("train", 1, 0.0, ()))
        item = api.set(f"{group}/v1beta2/workloads", "w", spec={"active": False})
        item["metadata"] |= {"namespace": "ml", "annotations": {names.ORDER: order}, "ownerReferences": [owner]}
    seen = []

    async def sleep(seconds: float) -> None:
        seen.append(resumed in api.patches)
        api.objects.pop("/api/v1/namespaces/ml/pods/train-master-0", None)

    monkeypatch.setattr(cleaning, "asyncio", SimpleNamespace(sleep=sleep))
    clean(api)

    assert seen == [False], "it waits for the pod"
    assert "spec" in api.patches[resumed]


def test_a_job_whose_pods_do_not_end_stays_held_and_is_named(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    held(api)
    monkeypatch.setattr(cleaning, "GONE_S", 0.0)
    monkeypatch.setattr(cleaning, "LOOK_S", 0.0)

    with pytest.raises(cleaning.SomethingLeftError, match="PyTorchJob ml/train"):
        clean(api)
    assert not api.patches
