"""The copy of the cluster: whatever breaks, it becomes what the cluster is, and every change is told once."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from tests.unit.operator.fake import DOWN, GONE, FakeApi
from wheeltapper_operator import reflector
from wheeltapper_operator.api import ApiError, Silence
from wheeltapper_operator.reflector import Change, Reflector

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(reflector, "BACKOFF_S", 0.0)


class Play:
    """A reflector over a fake server, and what it told."""

    def __init__(self) -> None:
        self.api = FakeApi()
        self.told: list[Change] = []
        trim = lambda item: item.get("spec")  # noqa: E731
        self.reflector = Reflector(self.api, NODES, trim, self.told.append)

    async def until(self, true):
        while not true():  # noqa: ASYNC110 - nothing tells us when
            await asyncio.sleep(0)

    async def watching(self):
        await self.until(lambda: self.api.watches)

    def run(self, play):
        async def whole():
            task = asyncio.create_task(self.reflector.run())
            try:
                await asyncio.wait_for(play(), 5)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

        asyncio.run(whole())
        return [(each.key, each.old, each.new) for each in self.told]


@pytest.fixture
def play():
    return Play()


def test_a_list_in_pages_then_what_changes(play):
    for name in ("n1", "n2", "n3"):
        play.api.set(NODES, name, spec=1)

    async def go():
        await play.watching()
        assert len(play.reflector) == 3
        play.api.set(NODES, "n2", spec=2)
        play.api.drop(NODES, "n3")
        await play.until(lambda: len(play.reflector) == 2)

    assert play.run(go)[3:] == [("n2", 1, 2), ("n3", 1, None)]
    assert play.reflector.lists == 1


@pytest.mark.parametrize("trouble", [GONE, DOWN, ApiError(500, "InternalError", "etcd"), None], ids=repr)
def test_what_changed_while_a_watch_was_broken_is_told_once(play, trouble):
    play.api.set(NODES, "n1", spec=1)
    play.api.set(NODES, "n2", spec=1)

    async def go():
        await play.watching()
        [watch] = play.api.watches
        watch.put_nowait(trouble)
        play.api.watches.clear()
        play.api.watches.append(watch)  # so that leaving it finds it
        if trouble is GONE or isinstance(trouble, ApiError):
            play.api.objects[f"{NODES}/n1"]["spec"] = 2
            play.api.objects[f"{NODES}/n1"]["metadata"]["resourceVersion"] = "900"
            del play.api.objects[f"{NODES}/n2"]
            await play.until(lambda: len(play.reflector) == 1)
        await play.until(lambda: play.api.watches and play.api.watches[0] is not watch)

    told = play.run(go)
    assert told[:2] == [("n1", None, 1), ("n2", None, 1)]
    expected = [("n1", 1, 2), ("n2", 1, None)] if trouble is GONE or isinstance(trouble, ApiError) else []
    assert told[2:] == expected


def test_a_list_that_fails_is_tried_again(play):
    play.api.set(NODES, "n1", spec=1)
    play.api.fails = [DOWN, ApiError(429, "TooManyRequests", "later")]

    async def go():
        await play.watching()

    assert play.run(go) == [("n1", None, 1)]


def test_a_list_that_is_never_in_time_is_not_asked_for_without_a_pause(play, monkeypatch):
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    monkeypatch.setattr(reflector, "asyncio", SimpleNamespace(sleep=sleep, Event=asyncio.Event))
    play.api.fails = [GONE] * 3

    async def go():
        await play.watching()

    assert play.run(go) == []
    assert len(pauses) == 3


def test_a_watch_that_is_silent_is_begun_anew_at_once_and_nobody_is_told(play, monkeypatch, caplog):
    pauses = []

    async def sleep(seconds):
        pauses.append(seconds)

    monkeypatch.setattr(reflector, "asyncio", SimpleNamespace(sleep=sleep, Event=asyncio.Event))

    async def go():
        for _ in range(5):
            await play.watching()
            [watch] = play.api.watches
            watch.put_nowait(Silence("nothing came"))
            await play.until(lambda watch=watch: watch not in play.api.watches)

    with caplog.at_level("INFO"):
        assert play.run(go) == []
    assert (pauses, caplog.messages, play.reflector.lists) == ([], [], 1)


def test_a_kind_whose_version_is_served_no_more_is_looked_for_anew(play):
    old, new = "/apis/example.com/v1beta1/things", "/apis/example.com/v1/things"
    where = [old]

    async def find():
        return where[0]

    play.reflector = Reflector(play.api, old, lambda item: item["spec"], play.told.append, find=find)
    play.api.set(old, "t1", spec=1)

    async def go():
        await play.watching()
        where[0] = new
        # In this order: the fake tells each watch of everything.
        play.api.watches[0].put_nowait(ApiError(404, "NotFound", "no such version"))
        play.api.set(new, "t1", spec=2)
        await play.until(lambda: play.reflector.get("t1") == 2)

    assert play.run(go)[-1] == ("t1", 1, 2)
    assert ("GET", new) in play.api.requests


def test_a_kind_that_the_cluster_does_not_have_is_none_of_it(play):
    play.api.fails = [ApiError(404, "NotFound", "no such kind")]

    async def go():
        await play.until(play.reflector.synced.is_set)

    assert play.run(go) == []


def test_an_answer_of_ours_is_believed_before_a_watch_that_is_behind(play):
    old = play.api.set(NODES, "n1", spec=1)

    async def go():
        await play.watching()
        play.reflector.put({"metadata": {"name": "n1", "resourceVersion": "500"}, "spec": 5})
        play.api.tell({"type": "MODIFIED", "object": {**old, "spec": 3}})
        play.api.set(NODES, "n2", spec=1)
        await play.until(lambda: len(play.reflector) == 2)

    assert play.run(go) == [("n1", None, 1), ("n1", 1, 5), ("n2", None, 1)]
    assert play.reflector.get("n1") == 5


def test_a_heartbeat_that_changes_nothing_is_no_change(play):
    play.api.set(NODES, "n1", spec=1)

    async def go():
        await play.watching()
        play.api.set(NODES, "n1", spec=1)
        play.api.set(NODES, "n2", spec=1)
        await play.until(lambda: len(play.reflector) == 2)

    assert play.run(go) == [("n1", None, 1), ("n2", None, 1)]


def test_of_all_lists_one_page_is_read_at_a_time():
    api, busy, most = FakeApi(), set(), [0]
    for path in (NODES, PODS):
        for number in range(7):
            api.set(path, f"n{number}", spec=1)
    get = api.get

    async def slow(path, **query):
        busy.add(path)
        most[0] = max(most[0], len(busy))
        await asyncio.sleep(0)
        busy.remove(path)
        return await get(path, **query)

    api.get = slow

    async def whole():
        both = [Reflector(api, path, lambda item: item["spec"], lambda _change: None) for path in (NODES, PODS)]
        tasks = [asyncio.create_task(each.run()) for each in both]
        await asyncio.wait_for(asyncio.gather(*(each.synced.wait() for each in both)), 5)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return [len(each) for each in both]

    assert asyncio.run(whole()) == [7, 7]
    assert most == [1]
