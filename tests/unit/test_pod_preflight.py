"""What the agent answers to a pod: whose token it is, which GPUs it has, and what speaks against those."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.unit.make import BOOT, xid79
from wheeltapper import kubernetes_names as names
from wheeltapper.config import Mode, parse
from wheeltapper.verdict import State, Verdict
from wheeltapper_hooks.agent import pod_preflight, pod_resources
from wheeltapper_hooks.agent.pod_gpus import addresses
from wheeltapper_hooks.agent.pod_preflight import PodPreflight, concerning, moded
from wheeltapper_hooks.agent.pod_resources import Device, KubeletTrouble, find
from wheeltapper_hooks.agent.pod_tokens import Asker, NotAPod, asker_of

ASKER = Asker("team", "train-worker-0", "p-1", "n1")
BROKEN = Verdict("n1", State.FAIL, 5.0, 30.0, BOOT, (xid79("n1", gpu="0000:3b:00"),))
FIT = Verdict("n1", State.OK, 5.0, 30.0, BOOT)


def reviewed(**changes):
    extra = {
        "authentication.kubernetes.io/pod-name": ["train-worker-0"],
        "authentication.kubernetes.io/pod-uid": ["p-1"],
        "authentication.kubernetes.io/node-name": ["n1"],
    }
    user = {"username": "system:serviceaccount:team:default", "extra": extra}
    return {"status": {"authenticated": True, "audiences": [names.AUDIENCE], "user": user, **changes}}


def test_a_token_names_the_pod_that_it_is_bound_to():
    assert asker_of(reviewed()) == ASKER


@pytest.mark.parametrize(
    "changes",
    [
        {"authenticated": False, "error": "token expired"},
        {"audiences": ["https://kubernetes.default.svc"]},
        {"audiences": None},
        {"user": {"username": "system:serviceaccount:team:default", "extra": {}}},
        {"user": {**reviewed()["status"]["user"], "username": "admin"}},
    ],
)
def test_a_token_that_is_not_good_not_for_us_or_bound_to_no_pod_is_refused(changes):
    with pytest.raises(NotAPod):
        asker_of(reviewed(**changes))


def field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, *varint(len(content))]) + content


def varint(value: int) -> bytes:
    head = b""
    while value > 0x7F:
        head += bytes([value & 0x7F | 0x80])
        value >>= 7
    return head + bytes([value])


def listed(pod: str, namespace: str, *devices: tuple[str, list[str]]) -> bytes:
    """One pod of a ListPodResourcesResponse, with fields that we do not read among those that we do."""
    held = b"".join(
        field(2, field(1, name.encode()) + b"".join(field(2, each.encode()) for each in ids) + field(3, b""))
        for name, ids in devices
    )
    cpus = bytes([3 << 3 | 0, 5])
    container = field(1, b"pytorch") + cpus + held + field(4, b"memory")
    return field(1, field(1, pod.encode()) + field(2, namespace.encode()) + field(3, container))


def test_the_kubelets_answer_tells_a_pods_devices_from_another_pods():
    content = listed("train-worker-0", "other", ("nvidia.com/gpu", ["GPU-x"])) + listed(
        "train-worker-0", "team", ("nvidia.com/gpu", ["GPU-a", "GPU-b" * 60]), ("rdma/hca", ["mlx5_0"])
    )

    assert find(content, "team", "train-worker-0") == {
        Device("nvidia.com/gpu", "GPU-a"),
        Device("nvidia.com/gpu", "GPU-b" * 60),
        Device("rdma/hca", "mlx5_0"),
    }
    assert find(content, "team", "train-worker-1") is None


def test_an_answer_that_is_cut_off_is_no_answer():
    with pytest.raises(ValueError, match="cut off"):
        find(listed("a", "b", ("nvidia.com/gpu", ["GPU-a"]))[:-3], "team", "train")


def test_a_gpu_that_is_not_known_may_be_any():
    assert addresses(["GPU-a", "GPU-new"], {"GPU-a": "0000:3b:00"}) is None
    assert addresses([], {}) is None


def test_a_fault_of_another_gpu_keeps_nobody_off():
    said = concerning(BROKEN, frozenset({"0000:86:00"}))

    assert (said.state, said.findings) == (State.WARN, ())
    assert "another GPU" in str(said)


def test_a_fault_of_its_own_gpu_or_of_none_or_of_a_gpu_that_may_be_its_own_does():
    whole = replace(BROKEN, findings=(replace(xid79("n1"), evidence=replace(xid79("n1").evidence, gpu=None)),))

    assert concerning(BROKEN, frozenset({"0000:3b:00"})) == BROKEN
    assert concerning(whole, frozenset({"0000:86:00"})) == whole
    assert concerning(BROKEN, None) == BROKEN


@pytest.mark.parametrize(
    ("mode", "state"), [(Mode.OBSERVE, State.WARN), (Mode.QUARANTINE, State.WARN), (Mode.FULL, State.FAIL)]
)
def test_a_pod_is_kept_off_only_where_somebody_moves_it(mode, state):
    assert moded(BROKEN, mode).state is state


ITS_OWN = (Device("nvidia.com/gpu", "0000:3b:00"),)


class Agent:
    """The answer's surroundings: a node with a verdict, tokens that all are good, a kubelet, and a count of looks."""

    def __init__(self, patch, verdict=FIT, devices=ITS_OWN, asker=ASKER):
        config = parse('policy.mode = "full"\n')
        self.watch = SimpleNamespace(node="n1", config=config, look=lambda: self.verdict)
        self.verdict, self.devices, self.who, self.looks = verdict, devices, asker, 0
        patch.setattr(pod_resources, "devices_of", self.devices_of)
        patch.setattr(pod_preflight, "read_gpus", lambda _procfs: {})
        self.preflight = PodPreflight(self.watch, self, self.freshen)

    async def asker(self, token):
        return self.who

    async def devices_of(self, socket, namespace, pod):
        if self.devices is None:
            return None
        if isinstance(self.devices, Exception):
            raise self.devices
        return frozenset(self.devices)

    async def freshen(self):
        self.looks += 1

    def answer(self):
        return asyncio.run(self.preflight.answer("token"))


def test_a_pass_is_good_for_the_next_pod_on_the_same_gpus(monkeypatch):
    agent = Agent(monkeypatch)

    assert [agent.answer()["cached"], agent.answer()["cached"]] == [False, True]
    assert agent.looks == 1

    agent.devices = (Device("nvidia.com/gpu", "0000:86:00"),)
    assert agent.answer()["cached"] is False


def test_a_fault_since_a_pass_counts(monkeypatch):
    agent = Agent(monkeypatch)
    agent.answer()
    agent.verdict = BROKEN
    said = agent.answer()

    assert (said["state"], said["gpus"]) == ("fail", ["0000:3b:00"])
    assert said["findings"][0]["detail"] == "xid=79"


def test_a_failure_is_not_remembered(monkeypatch):
    agent = Agent(monkeypatch, BROKEN)
    agent.answer()
    agent.verdict = FIT

    assert agent.answer()["state"] == "ok"
    assert agent.looks == 2


def test_when_the_kubelet_does_not_answer_the_whole_nodes_verdict_counts(monkeypatch):
    agent = Agent(monkeypatch, BROKEN, devices=KubeletTrouble("no socket"))

    assert agent.answer()["state"] == "fail"


@pytest.mark.parametrize("changes", [{"asker": replace(ASKER, node="n2")}, {"devices": None}])
def test_a_pod_of_another_node_is_refused(monkeypatch, changes):
    with pytest.raises(NotAPod):
        Agent(monkeypatch, **changes).answer()
