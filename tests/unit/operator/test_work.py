"""Work by key, and the counts that budgets are judged by."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.operator.test_quarantine import a_node
from wheeltapper.errors import SchedulerDown
from wheeltapper.policy.budget import Share
from wheeltapper_operator import work
from wheeltapper_operator.pools import Pools
from wheeltapper_operator.reflector import Change
from wheeltapper_operator.work import Queue


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    monkeypatch.setattr(work, "BACKOFF_S", 0.001)


def run(play, handle):
    queue = Queue(handle)

    async def whole():
        task = asyncio.create_task(queue.run())
        try:
            await asyncio.wait_for(play(queue), 5)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(whole())


async def until(true):
    while not true():  # noqa: ASYNC110 - nothing tells us when
        await asyncio.sleep(0)


def test_a_key_is_never_worked_on_twice_at_once_and_once_more_when_it_came_meanwhile():
    done, busy = [], set()
    gate = asyncio.Event()

    async def handle(key):
        assert key not in busy
        busy.add(key)
        await gate.wait()
        busy.remove(key)
        done.append(key)

    async def play(queue):
        queue.add("n1")
        await until(lambda: busy)
        for _ in range(5):
            queue.add("n1")
        gate.set()
        await until(lambda: len(queue) == 0)

    run(play, handle)
    assert done == ["n1", "n1"]


def test_a_key_that_came_again_when_the_work_was_broken_off_is_worked_on_when_it_goes_on():
    """So it is when a replica loses the lease in the middle of its work, and soon has it again."""
    begun, gate = [], asyncio.Event()

    async def handle(key):
        begun.append(key)
        await gate.wait()

    queue = Queue(handle)

    async def whole():
        first = asyncio.create_task(queue.run())
        queue.add("n1")
        await until(lambda: begun)
        queue.add("n1")
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        second = asyncio.create_task(queue.run())
        queue.add("n1")
        try:
            await asyncio.wait_for(until(lambda: len(begun) == 2), 5)
        finally:
            second.cancel()
            await asyncio.gather(second, return_exceptions=True)

    asyncio.run(whole())
    assert begun == ["n1", "n1"]


@pytest.mark.parametrize("trouble", [SchedulerDown("not now"), KeyError("a bug")])
def test_what_fails_comes_again_and_others_go_on(trouble):
    tries = []

    async def handle(key):
        tries.append(key)
        if key == "n1" and tries.count("n1") < 3:
            raise trouble

    async def play(queue):
        queue.add("n1")
        queue.add("n2")
        await until(lambda: tries.count("n1") == 3)

    run(play, handle)
    assert tries.count("n2") == 1


def test_what_asks_for_it_comes_again_later():
    tries = []

    async def handle(key):
        tries.append(key)
        return 0.001 if len(tries) < 3 else None

    async def play(queue):
        queue.add("n1")
        await until(lambda: len(tries) == 3)

    run(play, handle)


def node(name, **changes):
    return a_node(name=name, **changes)


def test_pools_count_who_is_out_and_who_is_about_to_be():
    pools = Pools()
    one, two = node("n1", domain="r1"), node("n2", domain="r1", quarantine="{}")
    pools.hear(Change("n1", None, one))
    pools.hear(Change("n2", None, two))
    assert pools.standing(one).partitions == {"h100": Share(2, 1)}

    pools.reserve(one)
    assert pools.standing(one).domains == {"r1": Share(2, 2)}
    pools.settle(one)
    pools.hear(Change("n2", two, None))
    assert pools.standing(one).partitions == {"h100": Share(1, 0)}


def test_nodes_without_a_label_are_one_pool():
    pools = Pools()
    pools.hear(Change("n1", None, node("n1", pool="")))

    assert pools.standing(node("n1", pool="")).partitions == {"the cluster": Share(1, 0)}
    assert pools.standing(node("n1", pool="")).domains == {}
