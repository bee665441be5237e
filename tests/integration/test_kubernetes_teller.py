"""What an agent tells a real API server: each change once, and the last word in the end, whatever happens meanwhile."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from uuid import uuid4

import pytest

from tests.integration.control_plane import control_plane
from tests.unit.make import BOOT, xid79
from wheeltapper import kubernetes_names as names
from wheeltapper.verdict import State, Verdict
from wheeltapper_hooks.agent import kubernetes_teller
from wheeltapper_hooks.agent.api_server import ApiServer, Refused
from wheeltapper_hooks.agent.boot import uptime
from wheeltapper_hooks.agent.kubernetes_teller import KubernetesTeller
from wheeltapper_operator.api import Api, path_of
from wheeltapper_operator.objects import node_health

NODES = path_of("v1", "nodes")
HEALTHS = path_of(names.GROUP, "nodehealths")


@pytest.fixture(scope="module")
def plane(tmp_path_factory):
    with control_plane(tmp_path_factory.mktemp("control-plane")) as made:
        yield made


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    monkeypatch.setattr(kubernetes_teller, "BACKOFF_S", 0.05)
    monkeypatch.setattr(kubernetes_teller, "BACKOFF_MAX_S", 0.5)


@pytest.fixture
def name():
    return f"n-{uuid4().hex[:8]}"


class Agent:
    """The part of an agent that speaks to the cluster, with a verdict that the test sets."""

    def __init__(self, plane, name):
        self.watch = SimpleNamespace(node=name, turned=asyncio.Event(), turned_at=uptime(), verdict=verdict(name))
        self.server = Counting(plane.environment, plane.account)
        self.task = asyncio.create_task(KubernetesTeller(self.watch, self.server).tell_for_ever())

    def say(self, verdict):
        self.watch.verdict, self.watch.turned_at = verdict, uptime()
        self.watch.turned.set()

    async def end(self):
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self.server.close()


class Counting(ApiServer):
    """Counts what it asks for, and what changed anything."""

    def __init__(self, *where):
        super().__init__(*where)
        self.asked = []
        self.requests = 0
        self.dies_after = -1

    def request(self, method, path, body=None, kind="application/json"):
        if self.dies_after == 0:
            raise OSError("the agent has died")
        if method != "GET" and body != {}:
            self.dies_after -= 1
            self.asked.append((method, path))
        answer = super().request(method, path, body, kind)
        self.requests += 1
        return answer


def verdict(name, *findings):
    return Verdict(name, State.FAIL if findings else State.OK, 5.0, 30.0, BOOT, findings)


async def until(condition, what):
    deadline = time.monotonic() + 60
    while True:
        found = await condition()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what} did not come"
        await asyncio.sleep(0.02)


def play(plane, story):
    async def whole():
        api = await Api.connect(plane.kubeconfig)
        try:
            await story(api)
        finally:
            await api.close()

    asyncio.run(whole())


async def shown(api, name):
    """Return our condition on the node, and its other conditions."""
    found = (await api.get(f"{NODES}/{name}"))["status"].get("conditions") or ()
    return {each["type"]: each for each in found}


def says(api, name, status, reason):
    async def look():
        condition = (await shown(api, name)).get(names.CONDITION)
        return condition if condition and (condition["status"], condition["reason"]) == (status, reason) else None

    return look


async def add_node(api, name):
    await api.post(NODES, {"metadata": {"name": name}})
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": None}
    await api.patch(f"{NODES}/{name}/status", {"status": {"conditions": [ready]}})


async def versions(api, name):
    return [(await api.get(f"{path}/{name}"))["metadata"]["resourceVersion"] for path in (NODES, HEALTHS)]


def test_each_change_is_written_once_to_the_node_and_to_its_health(plane, name):
    async def story(api):
        await add_node(api, name)
        agent = Agent(plane, name)
        await until(says(api, name, "False", "Healthy"), "the first word")
        agent.say(verdict(name, xid79(name)))
        broken = await until(says(api, name, "True", "Xid79"), "the fault")
        assert "0000:3b:00" in broken["message"]
        assert broken["lastTransitionTime"].startswith("20")
        assert set(await shown(api, name)) == {"Ready", names.CONDITION}
        health = node_health(await api.get(f"{HEALTHS}/{name}"))
        assert (health.state, health.findings, health.boot_id) == (State.FAIL, (xid79(name),), BOOT)
        before = await versions(api, name)
        agent.say(verdict(name, xid79(name)))
        agent.say(verdict(name))
        await until(says(api, name, "False", "Healthy"), "the all-clear")
        assert len(agent.server.asked) == 1 + 2 * 3
        assert before != await versions(api, name)
        await agent.end()

    play(plane, story)


def test_what_turns_while_the_condition_makes_way_is_told_first(plane, name, monkeypatch):
    async def story(api):
        await add_node(api, name)
        agent = Agent(plane, name)
        await until(says(api, name, "False", "Healthy"), "the first word")
        monkeypatch.setattr(kubernetes_teller, "ASIDE_S", 600.0)

        def health_is(state):
            async def look():
                return node_health(await api.get(f"{HEALTHS}/{name}")).state is state

            return look

        agent.say(verdict(name, xid79(name)))
        await until(health_is(State.FAIL), "the fault")
        agent.say(verdict(name))
        await until(health_is(State.OK), "the all-clear")
        assert agent.server.asked[3:] == [("PATCH", f"{HEALTHS}/{name}/status")] * 2
        await agent.end()

    play(plane, story)


def test_a_new_agent_with_the_same_word_writes_nothing(plane, name):
    async def story(api):
        await add_node(api, name)
        first = Agent(plane, name)
        first.say(verdict(name, xid79(name)))
        await until(says(api, name, "True", "Xid79"), "the fault")
        await first.end()
        before = await versions(api, name)

        second = Agent(plane, name)
        second.say(verdict(name, xid79(name)))

        async def has_looked():
            return second.server.requests >= 2

        await until(has_looked, "its look at what stands there")
        await second.end()
        assert second.server.asked == []
        assert await versions(api, name) == before

    play(plane, story)


def test_an_agent_that_died_between_its_two_words_is_completed_by_the_next(plane, name):
    async def story(api):
        await add_node(api, name)
        first = Agent(plane, name)
        await until(says(api, name, "False", "Healthy"), "the first word")
        first.server.dies_after = 1
        first.say(verdict(name, xid79(name)))

        async def half_told():
            health = node_health(await api.get(f"{HEALTHS}/{name}"))
            return health.state is State.FAIL

        await until(half_told, "the first of two")
        assert (await shown(api, name))[names.CONDITION]["status"] == "False"
        await first.end()
        second = Agent(plane, name)
        second.say(verdict(name, xid79(name)))
        await until(says(api, name, "True", "Xid79"), "the second of two")
        await second.end()

    play(plane, story)


def test_what_happens_while_the_api_server_is_away_is_told_when_it_is_back(plane, name):
    async def story(api):
        await add_node(api, name)
        agent = Agent(plane, name)
        await until(says(api, name, "False", "Healthy"), "the first word")
        plane.server.kill()
        agent.say(verdict(name, xid79(name)))
        plane.server.start()
        await asyncio.to_thread(plane.wait)
        await until(says(api, name, "True", "Xid79"), "the fault")
        await agent.end()

    play(plane, story)


def test_an_agent_that_is_quicker_than_its_node_is_told_of_when_there_is_a_node(plane, name):
    async def story(api):
        agent = Agent(plane, name)

        async def has_spoken():
            return [each for each in (await api.get(HEALTHS))["items"] if each["metadata"]["name"] == name]

        await until(has_spoken, "its health")
        await add_node(api, name)
        await until(says(api, name, "False", "Healthy"), "the condition")
        await agent.end()

    play(plane, story)


def test_a_refusal_says_what_was_refused(plane):
    server = ApiServer(plane.environment, plane.account)

    with pytest.raises(Refused, match="nobody"):
        server.request("GET", f"{NODES}/nobody")
    server.close()
