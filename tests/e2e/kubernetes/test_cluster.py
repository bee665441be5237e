"""The cluster is a real one, and does for every test what the tests rely on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.kubernetes.cluster import (
    BASE_IMAGE,
    GPU,
    MACHINE,
    Cluster,
    ClusterError,
    gpus,
    pytorch_job,
    simulated_nodes,
)
from tests.e2e.kubernetes.gangs import gang, pods_of

# Every rank tells the master its number over TCP; the master ends well when it has heard all.
TRAIN = """
import os, socket, time
rank, size, port = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
if rank == 0:
    server = socket.create_server(("", port))
    heard = {int(server.accept()[0].makefile().readline()) for _ in range(size - 1)}
    assert heard == set(range(1, size)), heard
    print("all ranks were here", flush=True)
else:
    while True:
        try:
            with socket.create_connection((os.environ["MASTER_ADDR"], port)) as master:
                master.sendall(f"{rank}\\n".encode())
            break
        except OSError:
            time.sleep(0.2)
"""

SLEEP = {"command": ["sleep", "600"]}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, **spec},
    }


def container(*command: str, **more: Any) -> dict[str, Any]:
    return {"name": "main", "image": BASE_IMAGE, "imagePullPolicy": "Never", "command": list(command), **more}


def run_pod(cluster: Cluster, name: str, **spec: Any) -> str:
    """Run a pod to its end and return what it printed."""
    cluster.apply(pod(name, **spec))
    try:
        cluster.wait(lambda: phase(cluster, name) in {"Succeeded", "Failed"}, 60, f"the end of pod {name}")
        said = cluster.kubectl("logs", name)
        assert phase(cluster, name) == "Succeeded", said
        return said
    finally:
        cluster.kubectl("delete", "pod", name, "--wait=false")


def phase(cluster: Cluster, name: str) -> str:
    found = cluster.get("pod", name)
    return found["status"].get("phase", "") if found else ""


def test_three_workers_and_a_control_plane_are_ready(cluster: Cluster) -> None:
    nodes = cluster.objects("nodes", selector="type!=kwok")
    ready = {
        node["metadata"]["name"]: one["status"]
        for node in nodes
        for one in node["status"]["conditions"]
        if one["type"] == "Ready"
    }

    assert ready == dict.fromkeys([f"{cluster.name}-control-plane", *cluster.nodes], "True")
    assert len(cluster.nodes) == 3


def test_a_pytorchjob_of_three_pods_finds_its_master_and_succeeds(cluster: Cluster, job: str) -> None:
    cluster.apply(pytorch_job(job, 2, {"command": ["python3", "-c", TRAIN]}))
    cluster.wait_condition("pytorchjob", job, "Succeeded", timeout=120)

    assert len(pods_of(cluster, job)) == 3
    assert cluster.kubectl("logs", f"{job}-master-0") == "all ranks were here\n"


def test_a_suspended_job_has_no_pods_and_a_resumed_one_has_new_ones(cluster: Cluster, job: str) -> None:
    def suspend(value: bool) -> None:
        patch = json.dumps({"spec": {"runPolicy": {"suspend": value}}})
        cluster.kubectl("patch", "pytorchjob", job, "--type=merge", f"--patch={patch}")

    cluster.apply(pytorch_job(job, 2, SLEEP))
    before = cluster.wait(lambda: gang(cluster, job), 90, f"all pods of {job} to run")
    suspend(True)
    cluster.wait(lambda: not pods_of(cluster, job), 60, f"the pods of {job} to be gone")
    cluster.wait_condition("pytorchjob", job, "Suspended")
    suspend(False)
    after = cluster.wait(lambda: gang(cluster, job), 90, f"all pods of {job} to run again")

    assert not before.keys() & after.keys()


def test_the_webhook_refuses_a_job_that_is_wrong(cluster: Cluster, job: str) -> None:
    wrong = pytorch_job(job, 1, SLEEP)
    wrong["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["name"] = "not-pytorch"

    with pytest.raises(ClusterError, match="webhook"):
        cluster.apply(wrong)


def test_each_node_has_a_kernel_log_of_its_own_that_pods_can_read(cluster: Cluster) -> None:
    guilty, *others = cluster.workers
    guilty.xid(79)
    said = run_pod(
        cluster,
        "reads-the-kernel-log",
        nodeName=guilty.name,
        containers=[container("cat", f"{MACHINE}/kmsg", volumeMounts=[{"name": "machine", "mountPath": MACHINE}])],
        volumes=[{"name": "machine", "hostPath": {"path": MACHINE}}],
    )

    assert "Xid (PCI:0000:3b:00): 79" in said
    assert said == guilty.run("cat", f"{MACHINE}/kmsg")
    assert not [node.name for node in others if "Xid" in node.run("cat", f"{MACHINE}/kmsg")]


def test_a_pod_that_asks_for_gpus_is_told_which_are_its_own(cluster: Cluster) -> None:
    node = cluster.workers[1]
    said = run_pod(
        cluster,
        "asks-for-gpus",
        nodeSelector={"kubernetes.io/hostname": node.name},
        containers=[container("printenv", "NVIDIA_VISIBLE_DEVICES", resources={"limits": {GPU: 2}})],
    )

    assert sorted(said.strip().split(",")) == node.gpus


def test_an_unhealthy_gpu_is_not_given_away(cluster: Cluster) -> None:
    node = cluster.workers[2]
    first, second = node.gpus
    node.set_gpus({first: True, second: False})
    cluster.wait(lambda: gpus(cluster, node.name) == 1, 30, f"{node.name} to have one GPU")
    node.set_gpus({first: True, second: True})
    cluster.wait(lambda: gpus(cluster, node.name) == 2, 30, f"{node.name} to have two GPUs again")


def test_an_image_that_was_built_here_runs_on_every_node(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text('ARG BASE\nFROM ${BASE}\nCOPY word /word\nENTRYPOINT ["cat", "/word"]\n')
    (tmp_path / "word").write_text("tap\n")
    cluster.build(tmp_path, "localhost/word:1", BASE=BASE_IMAGE)

    for number, node in enumerate(cluster.workers):
        built = {"name": "main", "image": "localhost/word:1", "imagePullPolicy": "Never"}
        assert run_pod(cluster, f"says-a-word-{number}", nodeName=node.name, containers=[built]) == "tap\n"


def test_simulated_nodes_become_ready_and_go_again(cluster: Cluster) -> None:
    with simulated_nodes(cluster, 20) as names:
        assert {node["metadata"]["name"] for node in cluster.objects("nodes", selector="type=kwok")} == set(names)
    cluster.wait(lambda: not cluster.objects("nodes", selector="type=kwok"), 30, "the simulated nodes to be gone")


def test_helm_reaches_the_cluster(cluster: Cluster) -> None:
    assert json.loads(cluster.helm("list", "--all-namespaces", "--output=json")) == []


@pytest.mark.parametrize(
    "word", ["--context=production", "--kubeconfig=/root/.kube/config", "--server=https://10.0.0.1"]
)
def test_no_command_goes_to_another_cluster(cluster: Cluster, word: str) -> None:
    with pytest.raises(ClusterError, match="another cluster"):
        cluster.kubectl("get", "nodes", word)


def test_a_cluster_that_was_not_made_here_is_left_alone(cluster: Cluster, tmp_path: Path) -> None:
    stranger = Cluster(
        tmp_path, cluster.name, cache=cluster.cache, docker=cluster.docker, walls=cluster.walls, nodes=cluster.workers
    )
    stranger.kubeconfig.write_bytes(cluster.kubeconfig.read_bytes())

    with pytest.raises(ClusterError, match="left alone"):
        stranger.check_mark()
