"""A gang requeue, step by step, and what a job is read as."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.unit.make import attempt, xid79
from wheeltapper import codec
from wheeltapper import kubernetes_names as names
from wheeltapper.config import Mode
from wheeltapper.diagnosis.model import Diagnosis
from wheeltapper.labels import label
from wheeltapper.ledger.model import Interruption
from wheeltapper.policy.model import Decision, JobAction, Payer
from wheeltapper_operator import gang
from wheeltapper_operator.affinity import Hosts
from wheeltapper_operator.gang import Move, Order, Past, Stage
from wheeltapper_operator.jobs import BATCH, PYTORCH, job

NOW = 1_000.0


def merged(item, patch):
    """Return *item* after a JSON merge patch."""
    if not isinstance(patch, dict):
        return patch
    result = dict(item) if isinstance(item, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def pytorch(**spec):
    template = {"template": {"spec": {"containers": [{"name": "pytorch"}]}}}
    return {
        "metadata": {"name": "train", "namespace": "team", "uid": "u-1", "resourceVersion": "5"},
        "spec": {
            "pytorchReplicaSpecs": {"Master": dict(template), "Worker": {**template, "restartPolicy": "Never"}},
            **spec,
        },
        "status": {},
    }


def view(item, kind=PYTORCH):
    return job(item, kind)


PAST = Past(1, "hardware/gpu_xid xid=79", Payer.INFRASTRUCTURE, requeued=True, at=NOW)
ORDER = Order("u-1", 1, NOW + 60, ("n2",))


def ordered(item):
    return merged(item, gang.concluded(view(item), ORDER, PAST, "hardware/gpu_xid"))


def move(item, pods=0, now=NOW + 100):
    one = view(item)
    return gang.next_move(one, gang.read_order(one), pods, now)


def test_a_job_without_an_order_is_left_alone():
    assert move(pytorch()) is Move.NOTHING


def test_the_whole_way():
    item = ordered(pytorch())
    assert move(item) is Move.SUSPEND

    item = merged(item, gang.suspended(view(item), PYTORCH, ORDER))
    assert view(item).suspended
    assert move(item, pods=1) is Move.WAIT
    assert move(item, now=NOW + 59) is Move.WAIT
    assert move(item) is Move.RESUME

    item = merged(item, gang.resumed(item, view(item), PYTORCH, Hosts(("n2",))))
    after = view(item)
    assert (after.suspended, after.order, gang.number_of(after)) == (False, "", 2)
    for way, template in PYTORCH.templates(item).items():
        terms = template["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert terms == {"nodeSelectorTerms": [{"matchExpressions": [NOT_N2]}]}, way


NOT_N2 = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n2"]}
THEIRS = {"key": "gpu", "operator": "In", "values": ["h100"]}


def affine(*terms):
    item = pytorch()
    template = {
        "spec": {
            "affinity": {
                "podAffinity": {},
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}},
            }
        }
    }
    item["spec"]["pytorchReplicaSpecs"] = {"Worker": {"template": template}}
    return item


def terms_of(item):
    node = item["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["affinity"].get("nodeAffinity", {})
    return node.get("requiredDuringSchedulingIgnoredDuringExecution", {}).get("nodeSelectorTerms")


def test_the_users_own_affinity_stays_and_ours_goes_when_the_node_is_back():
    item = affine({"matchExpressions": [THEIRS]}, {"matchFields": [{"key": "x"}]})
    with_ours = merged(item, gang.resumed(item, view(item), PYTORCH, Hosts(("n2",))))
    assert terms_of(with_ours) == [
        {"matchExpressions": [THEIRS, NOT_N2]},
        {"matchFields": [{"key": "x"}], "matchExpressions": [NOT_N2]},
    ]

    without = merged(with_ours, gang.resumed(with_ours, view(with_ours), PYTORCH, Hosts()))
    assert terms_of(without) == terms_of(item)
    assert view(without).excluded == ""


def test_a_job_that_had_no_affinity_has_none_again():
    item = affine()
    item["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"].pop("affinity")
    with_ours = merged(item, gang.resumed(item, view(item), PYTORCH, Hosts(("n2",))))
    without = merged(with_ours, gang.resumed(with_ours, view(with_ours), PYTORCH, Hosts()))

    assert terms_of(with_ours) == [{"matchExpressions": [NOT_N2]}]
    assert terms_of(without) is None


def wishes_of(item):
    node = item["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["affinity"].get("nodeAffinity", {})
    return node.get("preferredDuringSchedulingIgnoredDuringExecution")


def not_in(*hosts):
    return {
        "weight": 100,
        "preference": {"matchExpressions": [{**NOT_N2, "values": list(hosts)}]},
    }


def test_what_is_avoided_is_a_wish_beside_the_users_own_and_follows_the_last_order():
    item = affine()
    theirs = {"weight": 1, "preference": {"matchExpressions": [THEIRS]}}
    node = item["spec"]["pytorchReplicaSpecs"]["Worker"]["template"]["spec"]["affinity"]["nodeAffinity"]
    node["preferredDuringSchedulingIgnoredDuringExecution"] = [theirs]
    hosts = Hosts(("n2",), ("n5", "n2", "n4"))
    first = merged(item, gang.resumed(item, view(item), PYTORCH, hosts))
    assert terms_of(first) == [{"matchExpressions": [NOT_N2]}]
    assert wishes_of(first) == [theirs, not_in("n5", "n4")]

    second = merged(first, gang.resumed(first, view(first), PYTORCH, Hosts(avoided=("n6",))))
    assert (terms_of(second), wishes_of(second)) == (None, [theirs, not_in("n6")])

    third = merged(second, gang.resumed(second, view(second), PYTORCH, Hosts()))
    assert wishes_of(third) == [theirs]
    assert view(third).avoided == ""


def test_an_order_keeps_what_to_avoid_and_one_from_before_avoids_nothing():
    order = replace(ORDER, avoid=("n4",))
    item = merged(pytorch(), gang.concluded(view(pytorch()), order, PAST, "hardware/gpu_xid"))
    item = merged(item, gang.suspended(view(item), PYTORCH, order))

    assert gang.read_order(view(item)) == replace(order, stage=Stage.SUSPENDED)
    before = {key: value for key, value in codec.dump(ORDER).items() if key != "avoid"}
    assert gang.order_in(json.dumps(before)) == ORDER


def test_a_batch_job_is_suspended_and_its_template_left_alone():
    item = {
        "metadata": {"name": "train", "namespace": "team", "uid": "u-1", "resourceVersion": "5"},
        "spec": {"template": {"spec": {"restartPolicy": "OnFailure"}}},
    }
    suspended = merged(item, gang.suspended(view(item, BATCH), BATCH, ORDER))
    resumed = merged(suspended, gang.resumed(suspended, view(suspended, BATCH), BATCH, Hosts(("n2",))))

    assert (suspended["spec"]["suspend"], resumed["spec"]) == (True, {**item["spec"], "suspend": False})


def failed(item):
    return merged(item, {"status": {"conditions": [{"type": "Failed", "status": "True"}], "completionTime": "x"}})


def test_a_job_that_has_failed_is_revived_while_it_is_suspended():
    item = failed(ordered(pytorch()))
    assert move(item) is Move.SUSPEND
    item = merged(item, gang.suspended(view(item), PYTORCH, ORDER))
    assert move(item, pods=3) is Move.REVIVE

    item = merged(item, gang.revived(item))
    assert (view(item).failed, "completionTime" in item["status"]) == (False, False)
    assert move(item) is Move.RESUME


def test_a_person_who_resumes_the_job_is_believed():
    item = ordered(pytorch())
    item = merged(item, gang.suspended(view(item), PYTORCH, ORDER))
    item = merged(item, PYTORCH.suspension(False))

    assert move(item) is Move.FORGET
    assert view(merged(item, gang.forgotten(view(item)))).order == ""


def test_a_copy_of_a_job_does_not_inherit_its_order():
    item = ordered(pytorch())
    item["metadata"] = {**item["metadata"], "uid": "u-2"}

    assert move(item) is Move.NOTHING


def test_a_job_that_is_stopped_stays_suspended():
    stop = replace(ORDER, stop=True)
    item = merged(pytorch(), gang.concluded(view(pytorch()), stop, PAST, "resource/host_oom"))
    assert move(item) is Move.SUSPEND
    item = merged(item, gang.suspended(view(item), PYTORCH, stop))

    assert move(item) is Move.FORGET
    assert view(merged(item, gang.forgotten(view(item)))).suspended


@pytest.mark.parametrize("text", ["", "nonsense", "{}", '{"uid": 3}', "null"])
def test_an_order_that_is_not_understood_is_none(text):
    assert gang.read_order(replace(view(pytorch()), order=text)) is None
    assert gang.read_attempts(replace(view(pytorch()), attempts=text)) == ()


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"spec": {"elasticPolicy": {"minReplicas": 1}}}, "it is elastic, and goes on without the ranks that it lost"),
        (
            {"spec": {"runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"}}},
            "it is managed by kueue.x-k8s.io/multikueue",
        ),
        ({"spec": {"runPolicy": {"managedBy": "kubeflow.org/training-operator"}}}, ""),
    ],
)
def test_whose_job_it_is(changes, why):
    assert view(merged(pytorch(), changes)).leave_alone == why


def test_restart_policies_have_training_operators_own_default():
    assert view(pytorch()).restart == {"OnFailure", "Never"}


def test_what_a_job_remembers_is_what_the_policy_asks_for():
    pasts = [PAST, replace(PAST, number=2, payer=Payer.USER), replace(PAST, number=3, requeued=False)]
    history = gang.history_of(pasts)

    assert (history.user, history.infrastructure, history.blind) == (1, 1, 0)
    assert gang.history_of(pasts, faults_since=PAST.at + 1).infrastructure == 0


@pytest.mark.parametrize(("mode", "requeued"), [(Mode.FULL, True), (Mode.QUARANTINE, False), (Mode.OBSERVE, False)])
def test_only_full_mode_remembers_a_requeue(mode, requeued):
    diagnosis = Diagnosis(label("hardware/gpu_xid"), "xid=79", chain=(xid79(),))
    decision = Decision(JobAction(True, "why", payer=Payer.INFRASTRUCTURE))
    past = gang.past_of(view(pytorch()), Interruption(attempt(), diagnosis, decision, mode, NOW))

    assert past == Past(1, "hardware/gpu_xid xid=79", Payer.INFRASTRUCTURE, requeued, NOW)


def test_the_order_goes_under_its_own_name():
    patch = gang.concluded(view(pytorch()), ORDER, PAST, "hardware/gpu_xid")
    annotations = patch["metadata"]["annotations"]

    assert json.loads(annotations[names.ORDER])["stage"] == Stage.ORDERED.value
    assert patch["metadata"]["resourceVersion"] == "5"
