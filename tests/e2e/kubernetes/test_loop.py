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
from tests.e2e.kubernetes.cluster import BASE_IMAGE, GPU, Cluster, Node, pytorch_job, started
from tests.e2e.kubernetes.gangs import (
    BATCH,
    DIES_OF_ITS_GPU,
    HUNGRY,
    SOON_S,
    TRAINS,
    anew,
    batch_job,
    conditions,
    gang,
    interruption,
    interruptions,
    leaving_soon,
    node_of,
    pods_of,
    reasons,
    taints,
    training,
)
from wheeltapper import kubernetes_names as names

STRATEGIC, MERGE = "strategic-merge-patch", "merge-patch"
BUG = "def loss(batch):\n    return 1 / (batch - batch)\n\nloss(3)\n"


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
    node = node_of(cluster, before, f"{job}-worker-0")
    mended.append(node)
    node.xid(79)
    after = anew(cluster, job, before)
    what = interruption(cluster, job)

    assert (what["label"], what["node"], what["decision"]) == ("hardware/gpu_xid", node.name, "requeue")
    assert what["confirmed"]
    assert node.name not in {pod["spec"]["nodeName"] for pod in after.values()}
    assert (cluster.get("pytorchjob", job) or {})["metadata"]["uid"] == uid
    assert taints(cluster, node.name)[names.TAINT] == "hardware.gpu_xid"
    assert (cluster.get("node", node.name) or {})["spec"]["unschedulable"]
    assert conditions(cluster, "node", node.name)[names.CONDITION] == "True"
    assert len(interruptions(cluster, job)) == 1


def test_a_job_of_kubernetes_own_survives_a_node_fault_as_a_gang(cluster: Cluster, mended: list[Node]) -> None:
    name = f"batch-{secrets.token_hex(3)}"
    cluster.apply(batch_job(name, 3, TRAINS))
    try:
        before = cluster.wait(lambda: gang(cluster, name, label=BATCH), SOON_S, f"all pods of {name}")
        node = cluster.nodes[next(iter(before.values()))["spec"]["nodeName"]]
        mended.append(node)
        node.xid(79)
        after = anew(cluster, name, before, label=BATCH)
        what = interruption(cluster, name)
    finally:
        cluster.kubectl("delete", "job", name)

    assert (what["kind"], what["label"], what["node"]) == ("Job", "hardware/gpu_xid", node.name)
    assert node.name not in {pod["spec"]["nodeName"] for pod in after.values()}


@pytest.mark.parametrize(
    ("container", "label"),
    [
        ({"command": ["sh", "-c", "exit 137"]}, "unknown/unknown"),
        (
            {"command": ["python3", "-c", HUNGRY], "resources": {"limits": {"memory": "64Mi"}}},
            "resource/host_oom",
        ),
    ],
    ids=["killed", "out-of-memory"],
)
def test_an_exit_code_job_that_would_fail_with_137_for_ever_is_stopped_and_told_why(
    cluster: Cluster, job: str, container: dict[str, Any], label: str
) -> None:
    cluster.apply(pytorch_job(job, 0, container, "ExitCode"))
    cluster.wait(lambda: "Stopped" in reasons(cluster, job), SOON_S, f"{job} to be stopped")
    cluster.wait(lambda: not pods_of(cluster, job), SOON_S, f"the pods of {job} to be gone")
    found = cluster.get("pytorchjob", job) or {}
    booked = sorted(interruptions(cluster, job), key=lambda each: each["attempt"])

    assert found["spec"]["runPolicy"]["suspend"]
    assert conditions(cluster, "pytorchjob", job).get("Failed") != "True"
    assert [(each["label"], each["attempt"]) for each in booked] == [(label, 1), (label, 2)]
    assert booked[-1]["decision"] == "stop"


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
    cluster.apply(leaving_soon(training(job, 3, TRAINS)))
    before = cluster.wait(lambda: gang(cluster, job), SOON_S, f"all ranks of {job}")
    node = node_of(cluster, before, f"{job}-worker-0")
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

    def patch(self, path: str, body: Any, kind: str = STRATEGIC) -> tuple[int, str]:
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


@pytest.mark.parametrize(
    "body", [_condition(names.CONDITION), {"status": {}}, {}], ids=["condition", "empty", "nothing"]
)
def test_an_agent_may_say_how_its_own_node_is_or_nothing(
    cluster: Cluster, agents_word: _Agent, body: dict[str, Any]
) -> None:
    path = f"/api/v1/nodes/{cluster.workers[0].name}/status"

    assert agents_word.patch(path, body) == (200, "")


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("nodes", _condition(names.CONDITION)),
        ("nodes", {"status": {}}),
        ("nodes", {}),
        ("nodehealths", {"status": {"verdict": "fail"}}),
        ("nodehealths", {"status": {}}),
        ("nodehealths", {}),
    ],
    ids=["condition", "empty", "nothing", "health", "empty-health", "no-health"],
)
def test_an_agent_may_not_speak_for_another_node(
    cluster: Cluster, agents_word: _Agent, kind: str, body: dict[str, Any]
) -> None:
    root, form = ("/api/v1", STRATEGIC) if kind == "nodes" else (f"/apis/{names.GROUP}", MERGE)
    status, message = agents_word.patch(f"{root}/{kind}/{cluster.workers[1].name}/status", body, form)

    assert status == 422
    assert "speaks for its own node only" in message


@pytest.mark.parametrize(
    ("body", "form", "words"),
    [
        (_condition("Ready"), STRATEGIC, "no condition of a node but"),
        ({"status": None}, MERGE, "no condition of a node but"),
        ({"status": {"conditions": []}}, MERGE, "no condition of a node but"),
        ({"status": {"conditions": [{"$patch": "replace"}]}}, STRATEGIC, "no condition of a node but"),
        ({"status": {"capacity": {GPU: "64"}}}, STRATEGIC, "and not its capacity"),
        ({"status": {"allocatable": {GPU: "63"}}}, STRATEGIC, "and not its allocatable"),
        ({"metadata": {"labels": {"trusted": "yes"}}}, STRATEGIC, "nothing of a node but its condition"),
        ({"metadata": {"annotations": {names.QUARANTINE: "{}"}}}, STRATEGIC, "nothing of a node but its condition"),
    ],
    ids=[
        "a-foreign-condition",
        "no-status",
        "no-conditions",
        "conditions-replaced",
        "capacity",
        "allocatable",
        "a-label",
        "our-own-annotation",
    ],
)
def test_an_agent_may_change_nothing_else_of_its_node(
    cluster: Cluster, agents_word: _Agent, body: dict[str, Any], form: str, words: str
) -> None:
    status, message = agents_word.patch(f"/api/v1/nodes/{cluster.workers[0].name}/status", body, form)

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
    status, message = agents_word.patch(path.format(node=cluster.workers[0].name), body, MERGE)

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
