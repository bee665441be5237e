"""Jobs that wait in a queue of a real Kueue: a fault moves them by their Workload, and Kueue alone suspends and resumes."""

from __future__ import annotations

import json
import secrets
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kubernetes import release
from tests.e2e.kubernetes.cluster import GPU, Cluster, Node, kueue, started
from tests.e2e.kubernetes.gangs import (
    DIES_OF_ITS_GPU,
    SOON_S,
    TRAINS,
    anew,
    conditions,
    gang,
    interruption,
    interruptions,
    pods_of,
    reasons,
    training,
)
from wheeltapper import kubernetes_names as names
from wheeltapper_operator.jobs import KUEUE

QUEUE = "team"
QUOTA = {GPU: 4, "cpu": 2, "memory": "1Gi"}
RANKS = 3
"""Of one job: two of them do not fit into the quota."""

STAYS = "trap '' TERM; while :; do sleep 0.2; done"
"""A rank that does not end when it is told to, but when it is killed."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of these tests' own with Kueue, a queue, and the chart, which the last of them uninstalls."""
    with (
        tempfile.TemporaryDirectory(prefix="wheeltapper-kubernetes-") as place,
        started(Path(place, "cluster"), workers=2, gpus=8) as made,
    ):
        kueue.install(made)
        kueue.make_queue(made, QUEUE, QUOTA)
        release.build_image(made, Path(place))
        release.install(made)
        made.wait(lambda: all(release.verdict(made, name) == "ok" for name in made.nodes), SOON_S, "all agents")
        yield made


@pytest.fixture
def other(cluster: Cluster) -> Iterator[str]:
    """The name of a second job, which goes with its pods afterwards."""
    name = f"other-{secrets.token_hex(3)}"
    yield name
    cluster.kubectl("delete", "pytorchjob", name, "--ignore-not-found")
    cluster.wait(lambda: not pods_of(cluster, name), SOON_S, f"the pods of {name} to be gone")


def queued(name: str, ranks: int, script: str = TRAINS, grace_s: int = 2, policy: str = "Never") -> dict[str, Any]:
    """A job of *ranks* in the queue, each of which is given *grace_s* seconds to end."""
    job = training(name, ranks, script, policy)
    job["metadata"]["labels"] = {KUEUE: QUEUE}
    for replica in job["spec"]["pytorchReplicaSpecs"].values():
        spec = replica["template"]["spec"]
        spec["terminationGracePeriodSeconds"] = grace_s
        spec["containers"][0]["resources"]["requests"] = {"cpu": "10m", "memory": "16Mi"}
    return job


def workload(cluster: Cluster, job: str) -> dict[str, Any]:
    """The Workload that Kueue has made of *job*; empty while there is none."""
    found = cluster.objects("workloads.kueue.x-k8s.io")
    return next((each for each in found if each["metadata"]["ownerReferences"][0]["name"] == job), {})


def is_true(of: dict[str, Any], condition: str) -> bool:
    held = of.get("status", {}).get("conditions") or ()
    return any(each["type"] == condition and each["status"] == "True" for each in held)


def carries_an_order(thing: dict[str, Any]) -> bool:
    return names.ORDER in (thing["metadata"].get("annotations") or {})


def said_by_kueue(cluster: Cluster, job: str) -> Counter[str]:
    """How often Kueue has told of each reason in events about *job*; what is told twice may be one event."""
    events = [each for each in cluster.objects("events") if each["involvedObject"]["name"] == job]
    by_kueue = [each for each in events if "kueue" in each["source"].get("component", "")]
    return sum((Counter({each["reason"]: each["count"]}) for each in by_kueue), Counter())


def waits(cluster: Cluster, job: str) -> bool:
    """True when Kueue has looked at *job* and has no room for it, and nobody else holds it."""
    of = workload(cluster, job)
    looked_at = "QuotaReserved" in json.dumps(of.get("status", {}))
    return looked_at and of["spec"]["active"] and not is_true(of, "QuotaReserved")


def test_a_fault_moves_a_job_by_its_workload_and_kueue_alone_suspends_and_resumes_it(
    cluster: Cluster, job: str, other: str, mended: list[Node]
) -> None:
    cluster.apply(queued(job, RANKS))
    before = cluster.wait(lambda: gang(cluster, job), SOON_S, f"all ranks of {job}")
    # It waits for more than there will ever be, so what the first job gives back is not taken by it.
    cluster.apply(queued(other, QUOTA[GPU] + 1))
    cluster.wait(lambda: waits(cluster, other), SOON_S, f"{other} to wait in the queue")
    node = cluster.nodes[next(iter(before.values()))["spec"]["nodeName"]]
    mended.append(node)
    node.xid(79)
    after = anew(cluster, job, before)
    what = interruption(cluster, job)
    of = workload(cluster, job)
    found = json.loads(cluster.kubectl("get", "pytorchjob", job, "--output=json", "--show-managed-fields"))
    ours = [each for each in found["metadata"]["managedFields"] if each["manager"] == names.MANAGER]

    assert (what["label"], what["node"], what["decision"]) == ("hardware/gpu_xid", node.name, "requeue")
    assert node.name not in {pod["spec"]["nodeName"] for pod in after.values()}
    assert is_true(of, "Admitted")
    assert of["spec"]["active"] is True
    assert not carries_an_order(of)
    assert not carries_an_order(found)
    assert ours
    assert all("f:spec" not in each["fieldsV1"] for each in ours), "nothing of its spec is ours"
    said = said_by_kueue(cluster, job)
    assert (said["Started"], said["Stopped"]) == (2, 1), "it is suspended once, and nobody undoes it"
    assert {"Interrupted", "Requeued"} <= reasons(cluster, job)
    assert waits(cluster, other)
    assert not interruptions(cluster, other)
    assert not reasons(cluster, other)


def test_what_a_moved_job_gives_back_kueue_may_give_to_the_next_and_neither_is_lost(
    cluster: Cluster, job: str, other: str, mended: list[Node]
) -> None:
    cluster.apply(queued(job, RANKS))
    before = cluster.wait(lambda: gang(cluster, job), SOON_S, f"all ranks of {job}")
    cluster.apply(queued(other, RANKS))
    cluster.wait(lambda: waits(cluster, other), SOON_S, f"{other} to wait in the queue")
    node = cluster.nodes[next(iter(before.values()))["spec"]["nodeName"]]
    mended.append(node)
    node.xid(79)
    cluster.wait(lambda: gang(cluster, other), SOON_S, f"{other} to take its turn")
    cluster.wait(lambda: waits(cluster, job), SOON_S, f"{job} to wait in the queue")
    cluster.wait(lambda: not carries_an_order(cluster.get("pytorchjob", job) or {}), SOON_S, f"{job} to be let go")
    held = cluster.get("pytorchjob", job) or {}

    assert held["spec"]["runPolicy"]["suspend"] is True
    assert not interruptions(cluster, other)
    cluster.kubectl("delete", "pytorchjob", other)
    after = anew(cluster, job, before)
    assert node.name not in {pod["spec"]["nodeName"] for pod in after.values()}
    assert len(interruptions(cluster, job)) == 1, "to wait in a queue is no interruption"


def test_a_job_that_has_failed_is_recorded_and_its_quota_goes_to_the_next(
    cluster: Cluster, job: str, other: str, mended: list[Node]
) -> None:
    cluster.apply(queued(job, RANKS, DIES_OF_ITS_GPU))
    before = cluster.wait(lambda: gang(cluster, job), SOON_S, f"all ranks of {job}")
    cluster.apply(queued(other, RANKS))
    cluster.wait(lambda: waits(cluster, other), SOON_S, f"{other} to wait in the queue")
    node = cluster.nodes[next(iter(before.values()))["spec"]["nodeName"]]
    mended.append(node)
    node.xid(79)
    cluster.wait(lambda: gang(cluster, other), SOON_S, f"{other} to take its turn")
    what = interruption(cluster, job)
    cluster.wait(lambda: "Interrupted" in reasons(cluster, job), SOON_S, "it to be said")
    of = workload(cluster, job)

    assert (what["label"], what["decision"]) == ("hardware/gpu_xid", "stop")
    assert what["reason"] == "it is Kueue's, and for Kueue it has ended"
    assert conditions(cluster, "pytorchjob", job)["Failed"] == "True"
    assert is_true(of, "Finished")
    assert of["spec"]["active"] is True
    assert not carries_an_order(of)
    assert "Requeued" not in reasons(cluster, job)


def test_a_job_that_kueue_evicts_and_admits_again_before_its_pods_are_gone_is_left_to_kueue(
    cluster: Cluster, job: str, mended: list[Node]
) -> None:
    cluster.apply(queued(job, RANKS, STAYS, grace_s=30, policy="OnFailure"))
    before = cluster.wait(lambda: gang(cluster, job), SOON_S, f"all ranks of {job}")
    set_stop_policy(cluster, "HoldAndDrain")
    cluster.wait(lambda: not is_true(workload(cluster, job), "Admitted"), SOON_S, f"{job} to be evicted")
    set_stop_policy(cluster, "None")
    cluster.wait(lambda: is_true(workload(cluster, job), "Admitted"), SOON_S, f"{job} to be admitted again")
    still = {pod["metadata"]["uid"] for pod in pods_of(cluster, job)}
    after = anew(cluster, job, before)
    # What comes next of the operator shows what it thought of the pods that ended.
    node = cluster.nodes[next(iter(after.values()))["spec"]["nodeName"]]
    mended.append(node)
    node.xid(79)
    what = interruption(cluster, job)

    assert still & before.keys(), "else they had ended by then"
    assert (what["label"], what["attempt"]) == ("hardware/gpu_xid", 1)
    assert len(interruptions(cluster, job)) == 1


def set_stop_policy(cluster: Cluster, policy: str) -> None:
    patch = json.dumps({"spec": {"stopPolicy": policy}})
    cluster.kubectl("patch", "clusterqueue", QUEUE, "--type=merge", f"--patch={patch}")


def test_an_uninstall_in_the_middle_of_a_move_has_the_job_queue_again(cluster: Cluster, job: str) -> None:
    """The last one here: the chart is gone afterwards."""
    cluster.apply(queued(job, RANKS, STAYS, grace_s=20))
    before = cluster.wait(lambda: gang(cluster, job), SOON_S, f"all ranks of {job}")
    node = cluster.nodes[next(iter(before.values()))["spec"]["nodeName"]]
    node.xid(79)
    cluster.wait(lambda: carries_an_order(workload(cluster, job)), SOON_S, f"the Workload of {job} to be deactivated")
    held = workload(cluster, job)
    release.uninstall(cluster)
    freed = workload(cluster, job)
    anew(cluster, job, before)
    left = cluster.get("pytorchjob", job) or {}

    assert held["spec"]["active"] is False
    assert freed["spec"]["active"] is True
    assert not carries_an_order(freed)
    assert not [key for key in left["metadata"].get("annotations") or {} if key.startswith(names.PREFIX)]
