"""A job that is Kueue's moves by way of its Workload, and Kueue's own doings and a person's are respected."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.operator.fake import FakeApi
from tests.unit.operator.test_eviction import parts
from tests.unit.operator.test_gang import NOW, ORDER, PAST, merged, pytorch
from wheeltapper import codec
from wheeltapper import kubernetes_names as names
from wheeltapper_operator import gang, kueue
from wheeltapper_operator.affinity import Hosts
from wheeltapper_operator.api import ApiError
from wheeltapper_operator.gang import Move, Order
from wheeltapper_operator.jobs import PYTORCH, Job, job
from wheeltapper_operator.kueue import Kueue, seen, workload
from wheeltapper_operator.reflector import Change

GROUP = "/apis/kueue.x-k8s.io"
PATH = f"{GROUP}/v1beta2/namespaces/team/workloads"


def a_workload(name: str = "pytorchjob-train-1a2b3", *, kind: str = "PyTorchJob", **rest: Any) -> dict[str, Any]:
    owner = {"apiVersion": "kubeflow.org/v1", "kind": kind, "name": "train", "uid": "u-1", "controller": True}
    meta = {"name": name, "namespace": "team", "uid": "w-1", "resourceVersion": "7", "ownerReferences": [owner]}
    return merged({"metadata": meta, "spec": {"active": True, "queueName": "q", "podSets": []}}, rest)


def queued(*, suspend: bool = False, **changes: Any) -> dict[str, Any]:
    item = pytorch(runPolicy={"suspend": suspend})
    return merged(merged(item, {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}}}), changes)


def as_seen(item: dict[str, Any], of: dict[str, Any] | None) -> Job:
    return seen(job(item, PYTORCH), workload(of) if of is not None else None)


def move(item: dict[str, Any], of: dict[str, Any], pods: int = 0) -> Move:
    one = as_seen(item, of)
    return gang.next_move(one, gang.read_order(one), pods, NOW + 100)


def test_the_whole_way():
    item = queued()
    item = merged(item, gang.concluded(as_seen(item, a_workload()), ORDER, PAST, "hardware/gpu_xid"))
    assert move(item, a_workload()) is Move.SUSPEND

    of = merged(a_workload(), kueue.deactivated(workload(a_workload()), "order"))
    item = merged(item, gang.suspended(as_seen(item, of), PYTORCH, ORDER))
    assert of["spec"]["active"] is False
    assert item["spec"]["runPolicy"]["suspend"] is False, "Kueue alone suspends the job"
    assert move(item, of) is Move.WAIT, "Kueue has not suspended it yet"

    item["spec"]["runPolicy"]["suspend"] = True
    assert move(item, of, pods=1) is Move.WAIT
    assert move(item, of) is Move.RESUME

    of = merged(of, kueue.activated(workload(of)))
    before = item["spec"]
    item = merged(item, gang.resumed(item, as_seen(item, of), PYTORCH, Hosts(("n2",))))
    assert (of["spec"]["active"], of["metadata"]["annotations"]) == (True, {})
    assert item["spec"] == before, "Kueue compares the templates with what it has admitted"
    assert gang.read_order(as_seen(item, of)) is None


def test_a_person_who_activates_the_workload_is_believed():
    item = queued(suspend=True)
    item = merged(item, gang.concluded(as_seen(item, a_workload()), ORDER, PAST, "hardware/gpu_xid"))
    item = merged(item, gang.suspended(as_seen(item, a_workload()), PYTORCH, ORDER))

    assert move(item, a_workload()) is Move.FORGET


def test_a_job_that_has_failed_has_finished_for_kueue_and_is_not_revived():
    item = queued(status={"conditions": [{"type": "Failed", "status": "True"}]})
    item = merged(item, gang.concluded(as_seen(item, a_workload()), ORDER, PAST, "hardware/gpu_xid"))

    assert as_seen(item, a_workload()).leave_alone == "it is Kueue's, and for Kueue it has ended"
    assert move(item, a_workload()) is Move.FORGET


@pytest.mark.parametrize(
    ("of", "why"),
    [
        (None, "it is Kueue's, and Kueue has no Workload for it"),
        (
            a_workload(status={"conditions": [{"type": "Finished", "status": "True"}]}),
            "it is Kueue's, and for Kueue it has ended",
        ),
        (a_workload(), ""),
    ],
)
def test_which_of_kueues_jobs_we_may_touch(of: dict[str, Any] | None, why: str):
    assert as_seen(queued(), of).leave_alone == why


def test_a_job_that_is_not_kueues_is_as_it_is():
    plain = job(pytorch(), PYTORCH)

    assert seen(plain, None) == plain


def test_a_workload_of_something_else_is_of_no_interest():
    assert workload(a_workload(kind="RayJob")) is None


@pytest.mark.parametrize(("stop", "active"), [(False, True), (True, False)])
def test_an_uninstall_leaves_nothing_on_a_workload_and_lets_go_what_we_held(stop: bool, active: bool):
    order = codec.dumps(Order("u-1", 1, NOW, (), stop=stop))
    held = merged(a_workload(), kueue.deactivated(workload(a_workload()), order))
    after = merged(held, kueue.cleared(workload(held)))

    assert (after["spec"]["active"], after["metadata"]["annotations"]) == (active, {})


class Api(FakeApi):
    """The fake, with merge patches that are held to the version that was read."""

    async def patch(self, path: str, body: Any, kind: str, **query: Any) -> dict[str, Any]:
        self._answer("PATCH", path)
        item = self.objects[path]
        if body["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", path)
        return await self._store(path, merged(item, body))


def serving(*versions: str) -> dict[str, Any]:
    """What an API server says of the group of Kueue's kinds."""
    return {"kind": "APIGroup", "versions": [{"groupVersion": f"x/{each}", "version": each} for each in versions]}


def the_kueue(*items: dict[str, Any]) -> tuple[Kueue, Api]:
    api = Api()
    api.objects[GROUP] = serving("v1beta1", "v1beta2")
    made = Kueue(parts(api)[0])
    for item in items:
        api.objects[f"{PATH}/{item['metadata']['name']}"] = item
        made.workloads.put(item)
    made.workloads.synced.set()
    return made, api


def ordered() -> Job:
    item = queued()
    return job(merged(item, gang.concluded(job(item, PYTORCH), ORDER, PAST, "hardware/gpu_xid")), PYTORCH)


def only(api: Api) -> dict[str, Any]:
    (item,) = (each for path, each in api.objects.items() if path != GROUP)
    return item


def test_an_operator_that_died_between_the_two_writes_is_followed_by_one_that_goes_on():
    made, api = the_kueue(a_workload())

    assert asyncio.run(made.suspend(ordered()))
    assert only(api)["spec"]["active"] is False
    version = only(api)["metadata"]["resourceVersion"]
    assert asyncio.run(made.suspend(ordered()))
    assert only(api)["metadata"]["resourceVersion"] == version, "a second time writes nothing"

    asyncio.run(made.resume(ordered()))
    assert only(api)["spec"]["active"] is True
    assert names.ORDER not in only(api)["metadata"]["annotations"]


def test_a_workload_that_a_person_has_deactivated_is_not_ours_to_activate():
    made, api = the_kueue(a_workload(spec={"active": False}))

    assert not asyncio.run(made.suspend(ordered()))
    asyncio.run(made.resume(ordered()))
    asyncio.run(made.forget(ordered()))
    assert only(api)["spec"]["active"] is False
    assert not [method for method, _ in api.requests if method == "PATCH"]


def test_a_workload_that_was_changed_meanwhile_makes_the_write_fail():
    made, api = the_kueue(a_workload())
    only(api)["metadata"]["resourceVersion"] = "8"

    with pytest.raises(ApiError, match="Conflict"):
        asyncio.run(made.suspend(ordered()))


def test_of_two_workloads_the_one_that_has_not_finished_counts():
    finished = {"conditions": [{"type": "Finished", "status": "True"}]}
    made, _ = the_kueue(a_workload("old", status=finished), a_workload("new"))

    assert made.seen(ordered()).leave_alone == ""


def test_a_workload_that_is_gone_holds_nothing():
    made, _ = the_kueue(a_workload())
    told = []
    made.listeners.append(told.append)
    made._hear(Change("team/pytorchjob-train-1a2b3", workload(a_workload()), None))

    assert made.seen(ordered()).leave_alone == "it is Kueue's, and Kueue has no Workload for it"
    assert [each.job for each in told] == ["train"]


def test_before_workloads_were_seen_no_job_of_kueues_is_touched():
    made = Kueue(parts(Api())[0])

    assert made.seen(ordered()).leave_alone == "it is Kueue's, and its Workload cannot be seen"
    assert made.seen(job(pytorch(), PYTORCH)).leave_alone == ""


@pytest.mark.parametrize(
    ("versions", "best"),
    [
        (("v1beta1",), "v1beta1"),
        (("v1beta2", "v1beta1"), "v1beta2"),
        (("v1alpha1", "v1beta1", "v1beta2"), "v1beta2"),
        (("v1beta2",), "v1beta2"),
    ],
)
def test_the_newer_of_the_versions_that_a_server_has_is_spoken(versions: tuple[str, ...], best: str):
    api = Api()
    api.objects[GROUP] = serving(*versions)

    assert asyncio.run(kueue.served(api)) == f"kueue.x-k8s.io/{best}"  # type: ignore[arg-type]


def test_a_kueue_that_was_upgraded_since_its_workloads_were_listed_is_written_to_in_its_new_version():
    made, api = the_kueue(a_workload())
    made.workloads._path = "/apis/kueue.x-k8s.io/v1beta1/workloads"
    asyncio.run(made.suspend(ordered()))

    assert [path for method, path in api.requests if method == "PATCH"] == [f"{PATH}/pytorchjob-train-1a2b3"]
