"""What the operator plans for one node, and the patch that carries it out."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.unit.make import BOOT, xid79
from wheeltapper import codec, config
from wheeltapper import kubernetes_names as names
from wheeltapper.evidence import Disposition
from wheeltapper.ledger.model import Outcome
from wheeltapper.policy.budget import Share, Standing
from wheeltapper.verdict import State
from wheeltapper_operator import patches, quarantine
from wheeltapper_operator.objects import Labels, Node, NodeHealth, Taint, node, node_health
from wheeltapper_operator.quarantine import Step

NOW = 2_000.0
LATER = NOW + 700.0
ROOM = Standing({"h100": Share(10, 0)}, {})
FULL = Standing({"h100": Share(10, 1)}, {})
THEIRS = Taint("node.kubernetes.io/unreachable", "", "NoExecute", "2026-11-30T00:00:00Z")


def policy(text="mode = 'quarantine'"):
    return config.parse(f"[policy]\n{text}\n").policy


def a_node(**changes) -> Node:
    values = {
        "name": "n1",
        "uid": "u1",
        "cordoned": False,
        "taints": (THEIRS,),
        "quarantine": "",
        "history": "",
        "pool": "h100",
        "domain": "",
        "boot_id": BOOT,
        "ready": True,
        "annotated": True,
    }
    return Node(**{**values, **changes})


def sick(*findings, boot=BOOT) -> NodeHealth:
    return NodeHealth("n1", boot, State.FAIL, NOW - 1, findings or (xid79("n1"),))


def well(since, boot="another") -> NodeHealth:
    return NodeHealth("n1", boot, State.OK, since, ())


def plan(of, health, standing=ROOM, text="mode = 'quarantine'", now=NOW):
    return quarantine.plan(of, health, standing, policy(text), now)


def carried_out(of: Node, planned) -> Node:
    """Return the node as it is after the patch of *planned*, as an API server would make it."""
    document = {
        "metadata": {"uid": of.uid, "annotations": {names.QUARANTINE: of.quarantine, names.HISTORY: of.history}},
        "spec": {"taints": [patches._json(each) for each in of.taints], "unschedulable": of.cordoned},
    }
    for step in patches.of(planned, of):
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].removeprefix("/").split("/")]
        place = document
        for part in way:
            place = place[part]
        if step["op"] == "test":
            assert (place[last] or None) == step["value"]
        elif step["op"] == "remove":
            place.pop(last, None)
        else:
            place[last] = step["value"]
    annotations = document["metadata"]["annotations"]
    return replace(
        of,
        cordoned=document["spec"]["unschedulable"],
        taints=tuple(
            Taint(each["key"], each.get("value", ""), each["effect"], each.get("timeAdded", ""))
            for each in document["spec"]["taints"]
        ),
        quarantine=annotations.get(names.QUARANTINE, ""),
        history=annotations.get(names.HISTORY, ""),
    )


def taken_out(of: Node | None = None) -> Node:
    of = of or a_node()
    return carried_out(of, plan(of, sick()))


def test_a_healthy_node_is_left_alone():
    assert plan(a_node(), well(0.0)).step is Step.NOTHING
    assert plan(a_node(), None).step is Step.NOTHING


def test_a_fault_takes_the_node_out_and_leaves_the_taints_of_others():
    out = taken_out()

    assert out.cordoned
    assert out.taints == (THEIRS, Taint(names.TAINT, "hardware.gpu_xid", "NoSchedule"))
    assert quarantine.read_out(out.quarantine).record.reason.startswith("wheeltapper: hardware/gpu_xid xid=79 ")


def test_observe_mode_only_says_what_it_would_do():
    planned = plan(a_node(), sick(), text="mode = 'observe'")

    assert (planned.step, planned.why[:39]) == (Step.OBSERVE, "observe mode; it would be quarantined: ")


def test_the_budget_blocks_and_says_so():
    planned = plan(a_node(), sick(), FULL)

    assert planned.step is Step.BLOCKED
    assert "1 of 10 nodes of h100 are out already and the budget is 1" in planned.why


@pytest.mark.parametrize(
    "finding",
    [
        replace(xid79("n1"), disposition=Disposition.RESTART_APP),
        xid79("n2"),
        replace(xid79("n1"), evidence=replace(xid79("n1").evidence, boot_id="an earlier boot")),
    ],
    ids=["the application's", "another node's", "an earlier boot's"],
)
def test_what_convicts_nobody_takes_nobody_out(finding):
    assert plan(a_node(), sick(finding)).step is Step.NOTHING


def test_a_node_that_is_out_waits_for_its_reboot_then_for_its_hold_then_comes_back():
    out = taken_out()
    assert plan(out, sick(), now=LATER).why == "it was not rebooted yet"

    booted = replace(out, boot_id="another")
    assert plan(booted, sick(), now=LATER).why == "its agent says nothing"
    assert plan(booted, well(LATER - 10), now=LATER).why == "it must pass its checks for 600 s first"

    back = plan(booted, well(NOW + 50), now=LATER)
    assert back.step is Step.RELEASE
    after = carried_out(booted, back)
    assert (after.cordoned, after.taints, after.quarantine) == (False, (THEIRS,), "")
    assert [each.outcome for each in quarantine.read_history(after.history)] == [Outcome.DONE, Outcome.RELEASED]


def test_a_node_says_what_was_last_done_about_it_and_when():
    assert quarantine.last_act(a_node()) is None

    out = taken_out()
    act = quarantine.last_act(out)
    assert (act.step, act.why, act.at) == (Step.QUARANTINE, plan(a_node(), sick()).why, NOW)

    booted = replace(out, boot_id="another")
    back = plan(booted, well(NOW + 50), now=LATER)
    act = quarantine.last_act(carried_out(booted, back))
    assert (act.step, act.why, act.at) == (Step.RELEASE, back.why, LATER)

    undone = replace(out, cordoned=False)
    settled = plan(undone, sick(), now=LATER)
    act = quarantine.last_act(carried_out(undone, settled))
    assert (act.step, act.why, act.at) == (Step.SETTLE, settled.why, LATER)


def test_nodes_that_are_back_are_avoided_the_last_first_and_those_that_are_out_are_tainted_anyway():
    out = taken_out()
    back = [
        replace(
            out, name=name, quarantine="", history=json.dumps([codec.dump(replace(record, at=at, outcome=outcome))])
        )
        for name, at, outcome in (("early", 5.0, Outcome.RELEASED), ("late", 9.0, Outcome.UNDONE))
        for record in quarantine.read_history(out.history)
    ]

    assert quarantine.failed_nodes([out, *back, a_node(name="never")], 5) == ["late", "early"]
    assert quarantine.failed_nodes(back, 1) == ["late"]


def test_the_hold_begins_with_the_quarantine_however_long_the_agent_was_content():
    booted = replace(taken_out(), boot_id="another")

    assert plan(booted, well(0.0), now=NOW + 10).step is Step.WAIT


def test_a_cordon_that_a_person_set_before_us_stays():
    out = taken_out(a_node(cordoned=True))
    after = carried_out(out, plan(replace(out, boot_id="another"), well(NOW), now=LATER))

    assert (after.cordoned, after.taint) == (True, None)


@pytest.mark.parametrize("undo", [{"cordoned": False}, {"taints": (THEIRS,)}], ids=["uncordoned", "taint removed"])
def test_a_person_who_undoes_half_is_believed_and_the_same_evidence_counts_no_more(undo):
    undone = replace(taken_out(), **undo)
    planned = plan(undone, sick())
    assert (planned.step, planned.why) == (Step.SETTLE, "a person put it back to work")

    after = carried_out(undone, planned)
    assert (after.cordoned, after.taint, after.quarantine) == (False, None, "")
    assert plan(after, sick()).step is Step.NOTHING
    assert plan(after, sick(xid79("n1", sequence=8))).step is Step.QUARANTINE


def test_a_repeat_offender_waits_for_a_person():
    text = "mode = 'quarantine'\n[policy.release]\nrepeat_quarantines = 2"
    at_first = taken_out()
    back = carried_out(at_first, plan(replace(at_first, boot_id="2"), well(NOW, "2"), now=LATER))
    again = replace(back, boot_id=BOOT)
    out = carried_out(again, plan(again, sick(xid79("n1", sequence=9)), text=text, now=LATER))

    assert "out 2 times in 30 days" in quarantine.read_out(out.quarantine).record.reason
    assert plan(replace(out, boot_id="3"), well(LATER, "3"), text=text, now=LATER * 2).step is Step.WAIT


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"record": 3}', "null"])
def test_records_that_are_not_understood_are_none(text):
    assert quarantine.read_out(text) is None
    assert quarantine.read_history(text) == ()


def test_a_node_without_annotations_gets_the_table_first():
    steps = patches.of(plan(a_node(), sick()), a_node(annotated=False))
    paths = [step["path"] for step in steps]

    assert paths.index("/metadata/annotations") < paths.index("/metadata/annotations/wheeltapper.dev~1quarantine")
    assert {"op": "test", "path": "/metadata/annotations", "value": None} in steps


def test_a_patch_holds_what_its_plan_rests_on_and_no_version():
    """A node's status changes all the time, by its kubelet and by our own agent."""
    tests = {
        step["path"]: step["value"] for step in patches.of(plan(a_node(), sick()), a_node()) if step["op"] == "test"
    }

    assert tests["/spec/taints"] == [{"key": THEIRS.key, "effect": "NoExecute", "timeAdded": THEIRS.added}]
    assert (tests["/metadata/uid"], tests["/spec/unschedulable"]) == ("u1", None)
    assert tests["/metadata/annotations/wheeltapper.dev~1quarantine"] is None
    assert "/metadata/resourceVersion" not in tests


def test_a_heartbeat_is_no_change():
    later = {**ITEM, "metadata": {**ITEM["metadata"], "resourceVersion": "6"}}

    assert node(later, Labels("pool", "rack")) == node(ITEM, Labels("pool", "rack"))


ITEM = {
    "metadata": {"name": "n1", "uid": "u", "resourceVersion": "5", "labels": {"pool": "a", "rack": "r"}},
    "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]},
    "status": {"nodeInfo": {"bootID": "b"}, "conditions": [{"type": "Ready", "status": "True"}]},
}


def test_a_node_is_read_from_json():
    read = node(ITEM, Labels("pool", "rack"))

    assert (read.pool, read.domain, read.boot_id, read.ready, read.annotated) == ("a", "r", "b", True, False)
    assert read.taints == (Taint("k", "", "NoSchedule"),)
    assert node({"metadata": ITEM["metadata"]}, Labels("x", "y")).boot_id == ""


def test_a_health_is_read_from_json_and_nonsense_is_none():
    status = {"bootID": BOOT, "verdict": "fail", "since": 5.0, "findings": [codec.dump(xid79("n1"))]}
    item = {"metadata": {"name": "n1"}, "status": json.loads(json.dumps(status))}

    assert node_health(item) == NodeHealth("n1", BOOT, State.FAIL, 5.0, (xid79("n1"),))
    for broken in ({}, {**status, "verdict": "sick"}, {**status, "findings": [{"label": 3}]}):
        assert node_health({"metadata": {"name": "n1"}, "status": broken}) is None
