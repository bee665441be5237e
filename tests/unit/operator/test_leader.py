"""Only one operator leads, and another follows when it is gone."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from tests.unit.operator.fake import DOWN, FakeApi
from wheeltapper_operator import leader
from wheeltapper_operator.leader import Leader

PATIENCE_S = 5.0


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    monkeypatch.setattr(leader, "TRY_S", 0.01)
    monkeypatch.setattr(leader, "RENEW_S", 0.2)
    monkeypatch.setattr(leader, "LEASE_S", 1)


class Candidates:
    def __init__(self, api, *names):
        self.api = api
        self.leads = []
        self.at_once = 0
        self.leaders = {name: Leader(api, "wheeltapper", "op", name) for name in names}
        self.tasks = {}

    def start(self):
        self.tasks = {name: asyncio.create_task(each.run(self._lead(name))) for name, each in self.leaders.items()}

    def _lead(self, name):
        async def lead():
            self.leads.append(name)
            self.at_once += 1
            assert self.at_once == 1
            try:
                await asyncio.Event().wait()
            finally:
                self.at_once -= 1

        return lead

    async def stop(self, *names):
        for name in names or list(self.tasks):
            task = self.tasks.pop(name)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def until(self, true):
        while not true():  # noqa: ASYNC110 - nothing tells us when
            await asyncio.sleep(0.005)


def play(work):
    async def whole():
        candidates = Candidates(FakeApi(), "a", "b")
        candidates.start()
        try:
            await asyncio.wait_for(work(candidates), PATIENCE_S)
        finally:
            await candidates.stop()
        return candidates.leads

    return asyncio.run(whole())


def test_one_of_two_leads():
    async def work(two):
        await two.until(lambda: two.leads)
        before = len(two.api.requests)
        await two.until(lambda: len(two.api.requests) > before + 20)

    assert len(play(work)) == 1


def test_one_that_resigns_is_followed():
    async def work(two):
        await two.until(lambda: two.leads)
        first = two.leads[0]
        await two.stop(first)
        await two.leaders[first].resign()
        await two.until(lambda: len(two.leads) == 2)

    assert sorted(play(work)) == ["a", "b"]


def test_one_that_dies_is_followed_when_its_lease_has_run_out():
    async def work(two):
        await two.until(lambda: two.leads)
        await two.stop(two.leads[0])
        await two.until(lambda: len(two.leads) == 2)

    assert sorted(play(work)) == ["a", "b"]


def test_one_that_cannot_renew_stops_by_itself():
    async def work(two):
        await two.until(lambda: two.leads)
        two.api.fails = [DOWN] * 10_000
        await two.until(lambda: two.at_once == 0)
        two.api.fails = []
        await two.until(lambda: two.at_once == 1)

    assert len(play(work)) == 2


def test_a_leader_that_stood_still_for_too_long_may_not_act_before_it_has_renewed(monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(leader.time, "monotonic", lambda: clock[0])

    async def whole():
        one = Leader(FakeApi(), "wheeltapper", "op", "a")
        assert not one.may_act()
        assert await one._try()
        one.leads = True
        assert one.may_act()
        clock[0] += leader.RENEW_S
        assert not one.may_act()
        assert await one._try()
        assert one.may_act()

    asyncio.run(whole())


def test_a_lease_that_somebody_else_has_taken_is_lost():
    async def work(two):
        await two.until(lambda: two.leads)
        path = next(key for key in two.api.objects if key.endswith("/op"))
        lease = await two.api.get(path)
        lease["spec"]["holderIdentity"] = "a third"
        await two.api.put(path, lease)
        await two.until(lambda: two.at_once == 0)

    play(work)
