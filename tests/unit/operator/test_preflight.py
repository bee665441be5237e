"""What the webhook makes of a pod."""

from __future__ import annotations

import base64
import json

import pytest

from wheeltapper import kubernetes_names as names
from wheeltapper.config import PodPreflightSection
from wheeltapper_hooks import preflight_pod
from wheeltapper_operator.preflight import mutate
from wheeltapper_operator.webhook import answer

SECTION = PodPreflightSection(enabled=True, image="registry.example/wheeltapper:1")
JOB = {"training.kubeflow.org/job-name": "train"}


def pod(labels=JOB, **spec):
    gpus = {"limits": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "4"}}
    containers = [{"name": "pytorch", "resources": gpus, "terminationMessagePolicy": "File"}]
    spec = {"serviceAccountName": "default", "containers": containers, **spec}
    return {"metadata": {"generateName": "train-", "labels": labels}, "spec": spec}


def applied(item, patch):
    """Return *item* after a JSON patch that only adds."""
    result = json.loads(json.dumps(item))
    for step in patch:
        assert step["op"] == "add"
        place = result
        *way, last = step["path"].lstrip("/").split("/")
        for key in way:
            place = place[int(key)] if isinstance(place, list) else place[key]
        if isinstance(place, dict):
            place[last] = step["value"]
        else:
            place.insert(len(place) if last == "-" else int(last), step["value"])
    return result


def changed(item, section=SECTION):
    return applied(item, mutate(item, section))


def test_the_init_container_comes_first_of_all():
    before = pod(initContainers=[{"name": "init-pytorch"}], volumes=[{"name": "data"}])
    spec = changed(before)["spec"]

    assert [each["name"] for each in spec["initContainers"]] == [names.PREFLIGHT_CONTAINER, "init-pytorch"]
    assert [each["name"] for each in spec["volumes"]] == ["data", names.PREFLIGHT_CONTAINER]


def test_a_pod_without_init_containers_and_volumes_gets_both():
    spec = changed(pod())["spec"]

    assert [each["name"] for each in spec["initContainers"]] == [names.PREFLIGHT_CONTAINER]
    assert [each["name"] for each in spec["volumes"]] == [names.PREFLIGHT_CONTAINER]


def test_it_asks_for_the_gpus_of_all_app_containers():
    second = {"name": "eval", "resources": {"limits": {"nvidia.com/gpu": 2, "nvidia.com/mig-1g.5gb": "1"}}}
    both = pod()
    both["spec"]["containers"].append(second)
    resources = changed(both)["spec"]["initContainers"][0]["resources"]

    assert resources["limits"] == {
        "cpu": "100m",
        "memory": "128Mi",
        "nvidia.com/gpu": "6",
        "nvidia.com/mig-1g.5gb": "1",
    }


def test_what_it_requests_is_what_it_is_limited_to_so_that_a_guaranteed_pod_stays_one():
    resources = changed(pod())["spec"]["initContainers"][0]["resources"]

    assert resources["requests"] == resources["limits"]


def test_a_pod_that_was_changed_is_not_changed_again():
    assert mutate(changed(pod()), SECTION) == []


@pytest.mark.parametrize(
    "item",
    [
        pod(labels={}),
        pod(labels={"app": "web"}),
        pod(labels={**JOB, names.PREFLIGHT: "disabled"}),
        {"metadata": {}, "spec": {"containers": [{"name": "web"}]}},
    ],
)
def test_other_pods_and_those_whose_owner_will_not_have_it_are_left_alone(item):
    assert mutate(item, SECTION) == []


def test_a_training_pod_without_gpus_keeps_its_containers_and_gets_the_last_words_only():
    item = pod()
    item["spec"]["containers"] = [{"name": "pytorch"}]

    assert changed(item)["spec"] == {
        **item["spec"],
        "containers": [{"name": "pytorch", "terminationMessagePolicy": "FallbackToLogsOnError"}],
    }


def test_a_pod_that_can_have_no_token_gets_no_volume_for_one():
    assert "volumes" not in changed(pod(serviceAccountName=""))["spec"]


def test_other_sites_name_their_own_gpus():
    section = SECTION.model_copy(update={"gpu_resources": ("amd.com/gpu",)})
    item = pod()
    item["spec"]["containers"][0]["resources"]["limits"] = {"amd.com/gpu": "8", "amd.com/gpu-tools": "1"}

    assert changed(item, section)["spec"]["initContainers"][0]["resources"]["limits"]["amd.com/gpu"] == "8"


def test_a_namespace_that_is_held_to_the_restricted_standard_takes_the_pod():
    spec = changed(pod())["spec"]
    security = spec["initContainers"][0]["securityContext"]

    assert (security["runAsNonRoot"], security["allowPrivilegeEscalation"]) == (True, False)
    assert (security["capabilities"], security["seccompProfile"]) == ({"drop": ["ALL"]}, {"type": "RuntimeDefault"})
    assert {key for volume in spec["volumes"] for key in volume} == {"name", "projected"}


def test_the_pods_client_and_the_operator_speak_of_the_same_exit_code_and_file():
    spec = changed(pod())["spec"]
    mount = spec["initContainers"][0]["volumeMounts"][0]["mountPath"]
    token = spec["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"]

    assert preflight_pod.KEPT_OFF == names.KEPT_OFF
    assert f"{mount}/{token['path']}" == preflight_pod.TOKEN
    assert token["audience"] == names.AUDIENCE


def review(item):
    return {"request": {"uid": "u-9", "object": item}}


def test_a_review_is_answered_by_its_uid_with_the_patch():
    response = answer(review(pod()), SECTION)["response"]

    assert (response["uid"], response["allowed"], response["patchType"]) == ("u-9", True, "JSONPatch")
    assert json.loads(base64.b64decode(response["patch"])) == mutate(pod(), SECTION)


def test_a_pod_that_is_left_alone_is_allowed_without_a_patch():
    assert answer(review(pod(labels={})), SECTION)["response"] == {"uid": "u-9", "allowed": True}
