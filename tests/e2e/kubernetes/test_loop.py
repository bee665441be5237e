"""The whole loop on a real cluster, with the chart installed by helm and operator and agents as pods of the image."""

from __future__ import annotations

import json
import secrets
import shutil
import ssl
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from tests.e2e.kubernetes import release
from tests.e2e.kubernetes.cluster import BASE_IMAGE, GPU, MACHINE, Cluster, Node, pytorch_job, started
from wheeltapper import kubernetes_names as names

JOB = "training.kubeflow.org/job-name"

TRAINS = "trap 'exit 143' TERM; while :; do sleep 0.2; done"
# Dies of the GPU that is lost under it, at the same time as the kernel says so.
DIES_OF_ITS_GPU = f"trap 'exit 143' TERM; until grep -q Xid {MACHINE}/kmsg; do sleep 0.2; done; exit 134"
BUG = "def loss(batch):\n    return 1 / (batch - batch)\n\nloss(3)\n"
HUNGRY = "held = [bytearray(1 << 20) for _ in range(400)]"

SOON_S = 150
"""Seconds for what takes a few on a machine that is not overloaded."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A cluster of its own: what is installed here acts on every node, and others run beside it."""
    folder = Path(tempfile.mkdtemp(prefix="wheeltapper-kubernetes-"))
    with started(folder) as made:
        yield made
    shutil.rmtree(folder)


@pytest.fixture(scope="module", autouse=True)
def chart(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with release.installed(cluster, tmp_path_factory.mktemp("chart")):
        yield


@pytest.fixture
def job(cluster: Cluster) -> Iterator[str]:
    """The name of a job of the test's own, which goes with its pods afterwards."""
    name = f"job-{secrets.token_hex(3)}"
    yield name
    cluster.kubectl("delete", "pytorchjob", name, "--ignore-not-found")
    cluster.wait(lambda: not pods_of(cluster, name), SOON_S, f"the pods of {name} to be gone")


@pytest.fixture
def mended(cluster: Cluster) -> Iterator[list[Node]]:
    """The nodes that a test has broken: it puts them in."""
    broken: list[Node] = []
    yield broken
    for node in broken:
        release.mend(cluster, node)


def training(name: str, ranks: int, script: str, policy: str = "Never", gpus: int = 1) -> dict[str, Any]:
    """A gang of *ranks* with GPUs, each of which runs *script* in a shell and sees its node's kernel log."""
    container = {
        "command": ["sh", "-c", script],
        "resources": {"limits": {GPU: gpus}},
        "volumeMounts": [{"name": "machine", "mountPath": MACHINE, "readOnly": True}],
    }
    job = pytorch_job(name, ranks - 1, container, policy)
    for replica in job["spec"]["pytorchReplicaSpecs"].values():
        replica["template"]["spec"]["volumes"] = [{"name": "machine", "hostPath": {"path": MACHINE}}]
    return job


def pods_of(cluster: Cluster, job: str) -> list[dict[str, Any]]:
    return cluster.objects("pods", selector=f"{JOB}={job}")


def gang(cluster: Cluster, job: str, ranks: int = 3) -> dict[str, dict[str, Any]]:
    """The pods of *job* by UID when all *ranks* of it run; else none."""
    pods = [pod for pod in pods_of(cluster, job) if "deletionTimestamp" not in pod["metadata"]]
    runs = len(pods) == ranks and all(pod["status"].get("phase") == "Running" for pod in pods)
    return {pod["metadata"]["uid"]: pod for pod in pods} if runs else {}


def interruptions(cluster: Cluster, job: str) -> list[dict[str, Any]]:
    return [each["spec"] for each in cluster.objects("interruptions") if each["spec"]["job"] == job]


def interruption(cluster: Cluster, job: str, timeout: float = SOON_S) -> dict[str, Any]:
    return cluster.wait(lambda: interruptions(cluster, job), timeout, f"the interruption of {job}")[0]


def taints(cluster: Cluster, node: str) -> dict[str, str]:
    found = cluster.get("node", node) or {}
    return {each["key"]: each.get("value", "") for each in found["spec"].get("taints") or ()}


def conditions(cluster: Cluster, kind: str, name: str) -> dict[str, str]:
    found = cluster.get(kind, name) or {}
    return {each["type"]: each["status"] for each in found["status"].get("conditions") or ()}


def reasons(cluster: Cluster, name: str) -> set[str]:
    """The reasons of our events about the object *name*."""
    events = cluster.objects("events")
    ours = [each for each in events if each["source"].get("component") == names.MANAGER]
    return {each["reason"] for each in ours if each["involvedObject"]["name"] == name}


def test_the_installation_says_of_itself_that_it_works(cluster: Cluster) -> None:
    said = cluster.helm("test", release.RELEASE, f"--namespace={release.NAMESPACE}", timeout=180)

    assert "Phase:          Succeeded" in said


def test_the_operator_satisfies_the_restricted_profile(cluster: Cluster) -> None:
    name = "as-restricted-as-can-be"
    enforced = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": enforced}})
    try:
        deployment = cluster.get("deployment", "wheeltapper-operator", release.NAMESPACE) or {}
        spec = {**deployment["spec"]["template"]["spec"], "serviceAccountName": "default", "priorityClassName": ""}
        spec.pop("priority", None)
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "operator", "namespace": name}, "spec": spec}
        cluster.wait(lambda: cluster.get("serviceaccount", "default", name), SOON_S, "the default account")
        made = cluster.kubectl("create", "--dry-run=server", "--filename", "-", stdin=json.dumps(pod))
    finally:
        cluster.kubectl("delete", "namespace", name, "--wait=false")

    assert "operator created" in made


@pytest.mark.parametrize(
    ("policy", "dies"),
    [("Never", False), ("Never", True), ("OnFailure", True), ("Always", False), ("ExitCode", True)],
    ids=[
        "never-ranks-hang",
        "never-a-rank-dies",
        "on-failure-a-rank-dies",
        "always-ranks-hang",
        "exit-code-a-rank-dies",
    ],
)
def test_a_gang_survives_a_node_fault(
    cluster: Cluster, job: str, mended: list[Node], policy: str, *, dies: bool
) -> None:
    cluster.apply(training(job, 3, DIES_OF_ITS_GPU if dies else TRAINS, policy))
    before = cluster.wait(lambda: gang(cluster, job), SOON_S, f"all ranks of {job}")
    uid = (cluster.get("pytorchjob", job) or {})["metadata"]["uid"]
    victim = next(pod for pod in before.values() if pod["metadata"]["name"] == f"{job}-worker-0")
    node = cluster.nodes[victim["spec"]["nodeName"]]
    mended.append(node)
    node.xid(79)
    after = cluster.wait(
        lambda: (new := gang(cluster, job)) and not new.keys() & before.keys() and new, SOON_S, f"{job} to run again"
    )
    what = interruption(cluster, job)

    assert (what["label"], what["node"], what["decision"]) == ("hardware/gpu_xid", node.name, "requeue")
    assert what["confirmed"]
    assert node.name not in {pod["spec"]["nodeName"] for pod in after.values()}
    assert (cluster.get("pytorchjob", job) or {})["metadata"]["uid"] == uid
    assert taints(cluster, node.name)[names.TAINT] == "hardware.gpu_xid"
    assert (cluster.get("node", node.name) or {})["spec"]["unschedulable"]
    assert conditions(cluster, "node", node.name)[names.CONDITION] == "True"
    assert len(interruptions(cluster, job)) == 1


def test_a_failed_job_that_nothing_explains_is_tried_once_more_and_then_stopped(cluster: Cluster, job: str) -> None:
    """Under restartPolicy Never it has failed for good: it runs again under the same UID all the same."""
    cluster.apply(pytorch_job(job, 0, {"command": ["sh", "-c", "exit 7"]}))
    uid = cluster.wait(lambda: cluster.get("pytorchjob", job), SOON_S, job)["metadata"]["uid"]
    cluster.wait(lambda: len(interruptions(cluster, job)) == 2, SOON_S, f"the second interruption of {job}")
    found = {each["attempt"]: each for each in interruptions(cluster, job)}

    assert {each["label"] for each in found.values()} == {"unknown/unknown"}
    assert (found[1]["decision"], found[2]["decision"]) == ("requeue", "stop")
    assert {each["uid"] for each in found.values()} == {uid}
    assert conditions(cluster, "pytorchjob", job)["Failed"] == "True"


def test_a_users_bug_fails_the_job_and_is_not_retried(cluster: Cluster, job: str) -> None:
    cluster.apply(pytorch_job(job, 1, {"command": ["python3", "-c", BUG]}))
    what = interruption(cluster, job)
    cluster.wait(lambda: "Interrupted" in reasons(cluster, job), SOON_S, "the event")

    assert (what["label"], what["decision"]) == ("software/user_code", "stop")
    assert "ZeroDivisionError" in what["sentence"]
    found = cluster.get("pytorchjob", job) or {}
    assert names.ORDER not in found["metadata"]["annotations"]
    assert found["metadata"]["annotations"][names.LABEL] == "software/user_code"
    assert conditions(cluster, "pytorchjob", job)["Failed"] == "True"
    assert all(names.TAINT not in taints(cluster, node) for node in cluster.nodes)


def test_a_rank_over_its_memory_limit_is_out_of_memory(cluster: Cluster, job: str) -> None:
    container = {"command": ["python3", "-c", HUNGRY], "resources": {"limits": {"memory": "64Mi"}}}
    cluster.apply(pytorch_job(job, 0, container))
    what = interruption(cluster, job)

    assert (what["label"], what["decision"]) == ("resource/host_oom", "stop")


def test_a_gang_that_has_to_make_room_was_preempted(cluster: Cluster, job: str) -> None:
    urgent = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}}
    cluster.apply({**urgent, "value": 1000})
    cluster.apply(training(job, 3, TRAINS, gpus=2))
    cluster.wait(lambda: gang(cluster, job), SOON_S, f"all ranks of {job}")
    container = {"name": "main", "image": BASE_IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "600"]}
    spec = {"priorityClassName": "urgent", "terminationGracePeriodSeconds": 0, "containers": [{**container, **_gpu(2)}]}
    meta = {"name": "urgent", "namespace": "default"}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})
    try:
        what = interruption(cluster, job)
    finally:
        cluster.kubectl("delete", "pod", "urgent")
        cluster.kubectl("delete", "priorityclass", "urgent")

    assert (what["label"], what["decision"]) == ("scheduler/preempted", "requeue")
    cluster.wait(lambda: gang(cluster, job), SOON_S, f"{job} to run again")


def test_a_kubelet_that_dies_is_a_node_that_is_down_and_no_proof(cluster: Cluster, job: str) -> None:
    leaves_soon = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
        for key in ("unreachable", "not-ready")
    ]
    made = training(job, 3, TRAINS)
    for replica in made["spec"]["pytorchReplicaSpecs"].values():
        replica["template"]["spec"]["tolerations"] = leaves_soon
    cluster.apply(made)
    before = cluster.wait(lambda: gang(cluster, job), SOON_S, f"all ranks of {job}")
    victim = next(pod for pod in before.values() if pod["metadata"]["name"] == f"{job}-worker-0")
    node = cluster.nodes[victim["spec"]["nodeName"]]
    node.stop_kubelet()
    try:
        what = interruption(cluster, job, 300)
    finally:
        node.start_kubelet()
        cluster.wait_condition("node", node.name, "Ready", timeout=SOON_S)

    assert what["label"] == "hardware/node_down"
    assert what["node"] == node.name
    assert what["confidence"] <= 0.5
    assert names.TAINT not in taints(cluster, node.name)


@pytest.fixture
def agents_word(cluster: Cluster) -> _Agent:
    """The rights of the agent on the first node, in the tests' hands."""
    return _Agent(cluster, cluster.workers[0].name)


class _Agent:
    """Writes as the agent on *node* would: with a token that is bound to its pod."""

    def __init__(self, cluster: Cluster, node: str) -> None:
        pod = release.agent_on(cluster, node)
        self._token = cluster.kubectl(
            "create", "token", "wheeltapper-agent", f"--namespace={release.NAMESPACE}",
            "--bound-object-kind=Pod", f"--bound-object-name={pod}",
        ).strip()  # fmt: skip
        self._server = yaml.safe_load(cluster.kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
        assert urlsplit(self._server).hostname == "127.0.0.1"
        self._trust = ssl.create_default_context()
        self._trust.check_hostname = False
        self._trust.verify_mode = ssl.CERT_NONE

    def patch(self, path: str, body: Any, kind: str = "strategic-merge-patch") -> tuple[int, str]:
        """Return the API server's status and message."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": f"application/{kind}+json"}
        request = urllib.request.Request(f"{self._server}{path}", json.dumps(body).encode(), headers, method="PATCH")
        try:
            with urllib.request.urlopen(request, context=self._trust, timeout=30) as answer:
                return answer.status, ""
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())["message"]


def _condition(kind: str) -> dict[str, Any]:
    stamp = "2026-01-01T00:00:00Z"
    said = {"type": kind, "status": "False", "reason": "Healthy", "message": "ok"}
    return {"status": {"conditions": [{**said, "lastHeartbeatTime": stamp, "lastTransitionTime": stamp}]}}


def _gpu(count: int) -> dict[str, Any]:
    return {"resources": {"limits": {GPU: count}}}


def test_an_agent_may_say_how_its_own_node_is(cluster: Cluster, agents_word: _Agent) -> None:
    path = f"/api/v1/nodes/{cluster.workers[0].name}/status"

    assert agents_word.patch(path, _condition(names.CONDITION)) == (200, "")


def test_an_agent_may_not_speak_for_another_node(cluster: Cluster, agents_word: _Agent) -> None:
    other = cluster.workers[1].name
    node = agents_word.patch(f"/api/v1/nodes/{other}/status", _condition(names.CONDITION))
    health = agents_word.patch(
        f"/apis/{names.GROUP}/nodehealths/{other}/status", {"status": {"verdict": "fail"}}, "merge-patch"
    )

    for status, message in (node, health):
        assert status == 422
        assert "speaks for its own node only" in message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (_condition("Ready"), "no condition of a node but"),
        ({"status": {"capacity": {GPU: "64"}}}, "and not its capacity"),
        ({"status": {"allocatable": {GPU: "0"}}}, "and not its allocatable"),
        ({"metadata": {"labels": {"trusted": "yes"}}}, "nothing of a node but its condition"),
        ({"metadata": {"annotations": {names.QUARANTINE: "{}"}}}, "nothing of a node but its condition"),
    ],
    ids=["a-foreign-condition", "capacity", "allocatable", "a-label", "our-own-annotation"],
)
def test_an_agent_may_change_nothing_else_of_its_node(
    cluster: Cluster, agents_word: _Agent, body: dict[str, Any], words: str
) -> None:
    status, message = agents_word.patch(f"/api/v1/nodes/{cluster.workers[0].name}/status", body)

    assert status == 422
    assert words in message


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nodes/{node}",
        "/api/v1/namespaces/default/pods/any",
        "/apis/wheeltapper.dev/v1alpha1/namespaces/default/interruptions/any",
    ],
)
def test_an_agent_has_no_other_rights(cluster: Cluster, agents_word: _Agent, path: str) -> None:
    body = {"metadata": {"labels": {"a": "b"}}}
    status, message = agents_word.patch(path.format(node=cluster.workers[0].name), body, "merge-patch")

    assert status == 403
    assert "forbidden" in message


def test_uninstalling_leaves_nothing_of_ours_behind(cluster: Cluster, job: str) -> None:
    """The last one here: after it the chart is gone."""
    cluster.apply(pytorch_job(job, 0, {"command": ["python3", "-c", BUG]}))
    node = cluster.workers[2]
    node.xid(79)
    cluster.wait(lambda: names.TAINT in taints(cluster, node.name), SOON_S, f"the taint of {node.name}")
    interruption(cluster, job)
    release.uninstall(cluster)
    release.forget(node)
    kinds = (
        "nodes", "pytorchjobs", "mutatingwebhookconfigurations", "validatingwebhookconfigurations",
        "validatingadmissionpolicies", "clusterroles", "clusterrolebindings", "leases",
    )  # fmt: skip
    texts = {kind: cluster.kubectl("get", kind, "--all-namespaces", "--output=json") for kind in kinds}

    assert [kind for kind, text in texts.items() if names.PREFIX in text] == []
    assert [kind for kind, text in texts.items() if "wheeltapper-" in _without_node_names(cluster, text)] == []
    assert names.CONDITION not in texts["nodes"]
    assert not (cluster.get("node", node.name) or {})["spec"].get("unschedulable")


def _without_node_names(cluster: Cluster, text: str) -> str:
    """*text* without the names of the test cluster's own nodes, which may look like ours."""
    return text.replace(f"{cluster.name}-worker", "").replace(f"{cluster.name}-control-plane", "")
