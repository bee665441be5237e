"""The webhook, its certificate and the agent's answer, with a real API server between them."""

from __future__ import annotations

import asyncio
import base64
import time
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from tests.integration.control_plane import control_plane, free_port
from tests.integration.kubelet import Kubelet
from tests.unit.make import BOOT, xid79
from tests.unit.test_pod_preflight import listed
from wheeltapper import codec, config
from wheeltapper import kubernetes_names as names
from wheeltapper.verdict import State, Verdict
from wheeltapper_hooks.agent.api_server import ApiServer
from wheeltapper_hooks.agent.pod_preflight import PodPreflight
from wheeltapper_hooks.agent.pod_tokens import NotAPod, PodTokens
from wheeltapper_operator.api import MERGE_PATCH, Api, ApiError, path_of
from wheeltapper_operator.certificates import BUNDLE, CERTIFICATE
from wheeltapper_operator.operator import Operator

REGISTRATION = "admissionregistration.k8s.io/v1"
SECRET = path_of("v1", "secrets", "wheeltapper", "wheeltapper-webhook")
PODS = path_of("v1", "pods", "team")
GPU = {"limits": {"nvidia.com/gpu": "1"}}
JOB = "batch.kubernetes.io/job-name"


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    with control_plane(tmp_path_factory.mktemp("control-plane")) as made:
        asyncio.run(furnish(made))
        yield made


async def furnish(plane):
    """Namespaces, accounts and a node: what controllers and kubelets would have made."""
    api = await Api.connect(plane.kubeconfig)
    for name, labels in (("wheeltapper", {}), ("team", {names.PREFLIGHT: "enabled"}), ("others", {})):
        await api.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        await api.post(path_of("v1", "serviceaccounts", name), {"metadata": {"name": "default"}})
    for name in ("n1", "n2", "n3"):
        await api.post("/api/v1/nodes", {"metadata": {"name": name}})
    await api.close()


def settings(port):
    return config.parse(
        f"""
        [policy]
        mode = "full"
        [policy.budget]
        max_percent = 100
        domain_max_percent = 100
        [kubernetes.preflight]
        enabled = true
        image = "localhost/wheeltapper:1"
        listen = "127.0.0.1"
        port = {port}
        """
    )


def configuration(port):
    hook = {
        "name": "preflight.wheeltapper.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "clientConfig": {"url": f"https://localhost:{port}/preflight"},
        "namespaceSelector": {"matchLabels": {names.PREFLIGHT: "enabled"}},
        "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
    }
    return {"metadata": {"name": "wheeltapper-preflight"}, "webhooks": [hook]}


@asynccontextmanager
async def operating(plane, kubeconfig=None):
    """An operator that leads, and a webhook configuration that does not know yet whom to trust."""
    port = free_port()
    api = await Api.connect(plane.kubeconfig)
    hooks = path_of(REGISTRATION, "mutatingwebhookconfigurations")
    await api.post(hooks, configuration(port))
    operator_api = await Api.connect(kubeconfig or plane.kubeconfig)
    task = asyncio.create_task(Operator(operator_api, settings(port), "me").run())
    try:
        yield api
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await operator_api.close()
        await api.delete(f"{hooks}/wheeltapper-preflight")
        await api.close()


async def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while True:
        found = await condition()
        if found:
            return found
        assert time.monotonic() < deadline, "it did not come true"
        await asyncio.sleep(0.1)


def pod(name, namespace="team", node="", **labels):
    container = {"name": "main", "image": "localhost/train:1", "resources": GPU}
    meta = {"name": name, "namespace": namespace, "labels": labels or {JOB: "train"}}
    spec = {"serviceAccountName": "default", "containers": [container], "nodeName": node}
    return {"metadata": meta, "spec": spec}


async def made(api, name, namespace="team"):
    """Make a pod of a training job, and return the names of its init containers; nothing of it stays."""
    path = path_of("v1", "pods", namespace)
    item = await api.post(path, pod(name, namespace))
    await api.delete(f"{path}/{name}", {"gracePeriodSeconds": 0})
    return [each["name"] for each in item["spec"].get("initContainers") or ()]


async def is_checked(api):
    return await made(api, "probe") == [names.PREFLIGHT_CONTAINER]


def test_the_api_server_trusts_the_webhook_and_asks_it_about_the_pods_of_willing_namespaces(plane):
    async def run():
        async with operating(plane) as api:
            await until(lambda: is_checked(api))
            assert await made(api, "elsewhere", "others") == []

            item = await api.post(PODS, pod("train-0", node="n1"))
            init = item["spec"]["initContainers"][0]
            assert init["resources"]["limits"]["nvidia.com/gpu"] == "1"
            assert item["spec"]["containers"][0]["terminationMessagePolicy"] == "FallbackToLogsOnError"
            await api.delete(f"{PODS}/train-0", {"gracePeriodSeconds": 0})

    asyncio.run(run())


def test_a_namespace_held_to_the_restricted_standard_takes_a_pod_that_was_changed(plane):
    async def run():
        async with operating(plane) as api:
            await until(lambda: is_checked(api))
            enforce = {"pod-security.kubernetes.io/enforce": "restricted"}
            await api.patch("/api/v1/namespaces/team", {"metadata": {"labels": enforce}}, MERGE_PATCH)
            item = pod("strict")
            item["spec"]["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
            item["spec"]["containers"][0]["securityContext"] = {
                "allowPrivilegeEscalation": False,
                "capabilities": {"drop": ["ALL"]},
            }
            answer = await api.post(PODS, item)
            assert answer["spec"]["initContainers"][0]["name"] == names.PREFLIGHT_CONTAINER
            await api.delete(f"{PODS}/strict", {"gracePeriodSeconds": 0})
            await api.patch("/api/v1/namespaces/team", {"metadata": {"labels": dict.fromkeys(enforce)}}, MERGE_PATCH)

    asyncio.run(run())


def test_a_certificate_that_is_lost_or_an_authority_that_is_taken_away_comes_back(plane):
    async def run():
        async with operating(plane) as api:
            await until(lambda: is_checked(api))
            before = (await api.get(SECRET))["data"]
            await api.patch(SECRET, {"data": {CERTIFICATE: base64.b64encode(b"spoilt").decode()}})

            async def is_renewed():
                return (await api.get(SECRET))["data"][CERTIFICATE] not in {before[CERTIFICATE], "c3BvaWx0"}

            await until(is_renewed)
            assert (await api.get(SECRET))["data"][BUNDLE] == before[BUNDLE]

            await api.delete(SECRET)
            hook = path_of(REGISTRATION, "mutatingwebhookconfigurations", name="wheeltapper-preflight")

            async def names_the_new_one():
                try:
                    now = (await api.get(SECRET))["data"][BUNDLE]
                except ApiError:
                    return False
                told = (await api.get(hook))["webhooks"][0]["clientConfig"].get("caBundle")
                return now != before[BUNDLE] and told == now

            await until(names_the_new_one)
            await until(lambda: is_checked(api))

    asyncio.run(run())


def test_without_an_operator_pods_are_made_all_the_same(plane):
    async def run():
        api = await Api.connect(plane.kubeconfig)
        hooks = path_of(REGISTRATION, "mutatingwebhookconfigurations")
        await api.post(hooks, configuration(free_port()))
        try:
            assert await made(api, "unchecked") == []
        finally:
            await api.delete(f"{hooks}/wheeltapper-preflight")
            await api.close()

    asyncio.run(run())


async def token_of(api, name, uid, audience=names.AUDIENCE):
    bound = {"kind": "Pod", "apiVersion": "v1", "name": name, "uid": uid}
    spec = {"audiences": [audience], "expirationSeconds": 600, "boundObjectRef": bound}
    made = await api.post(path_of("v1", "serviceaccounts", "team", "default", "token"), {"spec": spec})
    return made["status"]["token"]


def agent(server, kubelet, verdict):
    """The agent's answer on node n1, with the real API server behind it."""
    node = config.parse(
        f"""
        policy.mode = "full"
        [kubernetes.preflight]
        pod_resources = "{kubelet.path}"
        """
    )
    watch = SimpleNamespace(node="n1", config=node, look=lambda: verdict)

    async def freshen():
        return

    return PodPreflight(watch, PodTokens(server), freshen)


BROKEN = Verdict("n1", State.FAIL, 5.0, 30.0, BOOT, (xid79("n1"),))


def test_a_pods_own_token_gets_the_verdict_on_its_own_gpus_and_no_other_token_gets_anything(plane, tmp_path):
    content = listed("train-0", "team", ("nvidia.com/gpu", ["0000:3b:00"])) + listed("train-1", "team")
    kubelet = Kubelet(tmp_path / "kubelet.sock", content)

    async def run():
        api = await Api.connect(plane.kubeconfig)
        first, second = [
            (await api.post(PODS, pod(name, node=node)))["metadata"]
            for name, node in (("train-0", "n1"), ("train-1", "n2"))
        ]
        server = ApiServer(plane.environment, plane.account)
        asked = agent(server, kubelet, BROKEN)
        good = await token_of(api, "train-0", first["uid"])
        foreign = await token_of(api, "train-0", first["uid"], "https://kubernetes.default.svc")
        of_another_node = await token_of(api, "train-1", second["uid"])
        async with kubelet.serving():
            said = await asked.answer(good)
            assert (said["state"], said["gpus"]) == ("fail", ["0000:3b:00"])
            for token, why in ((foreign, "not good"), (of_another_node, "n2"), ("nonsense", "not good")):
                with pytest.raises(NotAPod, match=why):
                    await asked.answer(token)
            for name in ("train-0", "train-1"):
                await api.delete(f"{PODS}/{name}", {"gracePeriodSeconds": 0})
            with pytest.raises(NotAPod, match="not good"):
                await asked.answer(await _after_the_cache(api, good))
        server.close()
        await api.close()

    asyncio.run(run())


async def _after_the_cache(api, token):
    """The API server remembers a token that was good for some seconds; return it when it no longer does."""

    async def is_forgotten():
        review = {"spec": {"token": token, "audiences": [names.AUDIENCE]}}
        said = await api.post("/apis/authentication.k8s.io/v1/tokenreviews", review)
        return not said["status"].get("authenticated")

    await until(is_forgotten)
    return token


async def tell_fault(api, node):
    """Have the agent of *node* tell a fault that it has seen two hours ago."""
    status = {
        "verdict": "fail",
        "bootID": BOOT,
        "since": time.time() - 7200,
        "sentence": f"{node} is fail",
        "findings": [codec.dump(xid79(node, at=time.time() - 7200))],
    }
    health = {"apiVersion": names.GROUP, "kind": "NodeHealth", "metadata": {"name": node}}
    await api.post(path_of(names.GROUP, "nodehealths"), health)
    await api.patch(path_of(names.GROUP, "nodehealths", name=node, sub="status"), {"status": status})


async def keep_off(api, node, **labels):
    """Have a pod on *node* that belongs to a new job kept off by what the agent there has found."""
    await tell_fault(api, node)
    template = {"spec": {"restartPolicy": "OnFailure", "containers": [{"name": "main", "image": "x"}]}}
    job = {"metadata": {"name": f"of-{node}", "labels": labels}, "spec": {"template": template}}
    await api.post(path_of("batch/v1", "jobs", "team"), job)
    await api.post(PODS, pod(f"on-{node}", node=node, **{JOB: f"of-{node}"}))
    await until(lambda: is_out(api, node))
    init = {
        "name": names.PREFLIGHT_CONTAINER,
        "image": "x",
        "imageID": "",
        "ready": False,
        "restartCount": 0,
        "state": {"terminated": {"exitCode": names.KEPT_OFF, "reason": "Error", "message": '{"state": "fail"}'}},
    }
    await api.patch(f"{PODS}/on-{node}/status", {"status": {"phase": "Pending", "initContainerStatuses": [init]}})


async def is_out(api, node):
    taints = (await api.get(f"/api/v1/nodes/{node}"))["spec"].get("taints") or ()
    return [each["value"] for each in taints if each["key"] == names.TAINT] == ["hardware.gpu_xid"]


def test_a_pod_that_is_kept_off_is_booked_as_hardware_and_its_job_is_suspended_to_move(plane):
    async def run():
        async with operating(plane) as api:
            await until(lambda: is_checked(api))
            await keep_off(api, "n1")

            async def is_booked():
                found = (await api.get(path_of(names.GROUP, "interruptions", "team")))["items"]
                return found[0]["spec"] if found else None

            booked = await until(is_booked)
            assert (booked["label"], booked["node"], booked["confirmed"]) == ("hardware/gpu_xid", "n1", True)
            assert "kept off n1" in booked["reason"]

            async def is_suspended():
                return (await api.get(path_of("batch/v1", "jobs", "team", "of-n1")))["spec"].get("suspend")

            await until(is_suspended)

    asyncio.run(run())


def test_of_a_job_that_is_anothers_to_suspend_the_pod_alone_is_moved(plane):
    async def run():
        async with operating(plane) as api:
            await until(lambda: is_checked(api))
            await keep_off(api, "n2", **{"kueue.x-k8s.io/queue-name": "gpus"})

            async def is_leaving():
                try:
                    return "deletionTimestamp" in (await api.get(f"{PODS}/on-n2"))["metadata"]
                except ApiError as error:
                    return error.status == 404

            await until(is_leaving)
            assert not (await api.get(path_of("batch/v1", "jobs", "team", "of-n2")))["spec"].get("suspend")

    asyncio.run(run())


def test_an_operator_that_may_not_have_a_certificate_looks_after_nodes_all_the_same(plane):
    groups = ("", "batch", "coordination.k8s.io", "kubeflow.org", "wheeltapper.dev")
    resources = ["nodes", "pods", "events", "jobs", "leases", "nodehealths", "interruptions", "pytorchjobs"]
    rules = [{"apiGroups": list(groups), "resources": resources, "verbs": ["*"]}]
    role = {"metadata": {"name": "limited"}, "rules": rules}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "limited"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "limited"}
    binding = {"metadata": {"name": "limited"}, "roleRef": reference, "subjects": [subject]}

    async def run():
        async with operating(plane, plane.limited) as api:
            await api.post(path_of("rbac.authorization.k8s.io/v1", "clusterroles"), role)
            await api.post(path_of("rbac.authorization.k8s.io/v1", "clusterrolebindings"), binding)
            await tell_fault(api, "n3")
            await until(lambda: is_out(api, "n3"))
            assert not await is_checked(api)

    asyncio.run(run())
