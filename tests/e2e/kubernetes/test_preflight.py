"""Pods that land on a node ask its agent first: a real webhook, real tokens, the kubelet's own word for their GPUs."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kubernetes.cluster import Cluster, pytorch_job, started
from tests.e2e.kubernetes.gangs import gang, is_out, pods_of
from tests.e2e.kubernetes.release import (
    AGENTS,
    NAMESPACE,
    WITH_PREFLIGHT,
    build_image,
    install,
    is_trusted,
    liking,
    verdict,
)
from wheeltapper import kubernetes_names as names

MOVED_S = 180.0


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    """A cluster of these tests' own: they break its nodes."""
    with tempfile.TemporaryDirectory(prefix="wheeltapper-kubernetes-") as place:
        folder = Path(place)
        with started(folder / "cluster") as cluster:
            build_image(cluster, folder)
            install(cluster, WITH_PREFLIGHT)
            cluster.kubectl("label", "namespace", "default", f"{names.PREFLIGHT}=enabled")
            cluster.wait(lambda: is_trusted(cluster), 60, "the API server to be told whom to trust")
            yield cluster


def job(name: str, workers: int, prefer: str = "") -> dict[str, Any]:
    """A job whose ranks take one GPU each and run on; its pods like the node *prefer* best."""
    return liking(pytorch_job(name, workers, {"command": ["sleep", "600"]}, "OnFailure"), prefer)


def running(cluster: Cluster, name: str, ranks: int) -> list[dict[str, Any]]:
    """The pods of a job when *ranks* of them run, else nothing."""
    return list(gang(cluster, name, ranks).values())


def said(pod: dict[str, Any]) -> dict[str, Any]:
    """What the preflight of a pod left as its termination message."""
    (status,) = [each for each in pod["status"]["initContainerStatuses"] if each["name"] == names.PREFLIGHT_CONTAINER]
    report: dict[str, Any] = json.loads(status["state"]["terminated"]["message"])
    return report


def remove(cluster: Cluster, name: str) -> None:
    cluster.kubectl("delete", "pytorchjob", name, "--ignore-not-found")
    cluster.wait(lambda: not pods_of(cluster, name), 60, f"the pods of {name} to be gone")


def test_a_pod_on_a_fit_node_is_told_so_about_the_very_gpus_that_it_gets(own: Cluster) -> None:
    own.apply(job("fit", 1))
    try:
        pods = own.wait(lambda: running(own, "fit", 2), 120, "both ranks to run")
        for pod in pods:
            report = said(pod)
            assert report["state"] == "ok", report
            assert pod["spec"]["initContainers"][0]["name"] == names.PREFLIGHT_CONTAINER
            assert len(report["gpus"]) == 1
            assert set(report["gpus"]) <= set(own.nodes[pod["spec"]["nodeName"]].gpus)
    finally:
        remove(own, "fit")


def test_where_no_agent_answers_the_pod_starts_and_says_so(own: Cluster) -> None:
    send_agents(own, {"there": "is-none"})
    try:
        own.wait(lambda: not own.objects("pods", NAMESPACE, AGENTS), 60, "all agents to be gone")
        own.apply(job("alone", 0))
        (pod,) = own.wait(lambda: running(own, "alone", 1), 120, "the job to run")
        assert said(pod)["state"] == "unknown"
        assert "not heard" in said(pod)["sentence"]
    finally:
        remove(own, "alone")
        send_agents(own, None)
        own.wait(lambda: ready_agents(own) == len(own.workers), 180, "the agents to be back")


def test_a_pod_that_lands_on_a_broken_node_runs_on_another(own: Cluster) -> None:
    first, second, _third = own.workers
    first.xid(79)
    own.wait(lambda: is_out(own, first.name), 60, f"{first.name} to be taken out")
    second.xid(79)  # and the budget keeps this one in, so that pods still land there
    own.wait(lambda: verdict(own, second.name) == "fail", 60, f"the agent of {second.name} to say so")
    own.apply(job("moved", 0, prefer=second.name))
    try:
        (booked,) = own.wait(lambda: own.objects("interruptions"), MOVED_S, "the interruption to be booked")
        assert (booked["spec"]["label"], booked["spec"]["node"]) == ("hardware/gpu_xid", second.name)
        assert f"kept off {second.name}" in booked["spec"]["reason"]
        (pod,) = own.wait(lambda: running(own, "moved", 1), MOVED_S, "the job to run elsewhere")
        assert pod["spec"]["nodeName"] not in {first.name, second.name}
        assert said(pod)["state"] == "ok"
        assert not is_out(own, second.name)
    finally:
        remove(own, "moved")


def send_agents(cluster: Cluster, where: dict[str, str] | None) -> None:
    """Have agents run on nodes with the labels *where* only; on all with None."""
    patch = json.dumps({"spec": {"template": {"spec": {"nodeSelector": where}}}})
    cluster.kubectl("patch", "daemonset", "wheeltapper-agent", f"--namespace={NAMESPACE}", f"--patch={patch}")


def ready_agents(cluster: Cluster) -> int:
    found = cluster.get("daemonset", "wheeltapper-agent", NAMESPACE) or {}
    return int(found.get("status", {}).get("numberReady", 0))
