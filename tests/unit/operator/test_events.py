"""What people read: told once for each moment, and told in the end, whatever the API server does meanwhile."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.operator.fake import DOWN, FakeApi
from wheeltapper_operator import events
from wheeltapper_operator.api import ApiError
from wheeltapper_operator.events import Events, Regarding
from wheeltapper_operator.pace import Pace

NODE = Regarding("v1", "Node", "n1", "u1")
PATH = "/api/v1/namespaces/default/events"


@pytest.fixture(autouse=True)
def _hurry(monkeypatch):
    monkeypatch.setattr(events, "BACKOFF_S", 0.0)


class Server(FakeApi):
    """One that takes merge patches, and may lose its answers."""

    def __init__(self) -> None:
        super().__init__()
        self.loses = 0

    async def post(self, path, body):
        made = await super().post(path, body)
        if self.loses:
            self.loses -= 1
            raise DOWN
        return made

    async def patch(self, path, body):
        self._answer("PATCH", path)
        return await self._store(path, {**self.objects[path], **body})


def told(server, *moments, once=False, leads=True):
    """Return each event's count after the same sentence was said at each of *moments*."""

    async def whole():
        said = Events(server, Pace(1000.0, 1000), lambda: leads)
        for at in moments:
            said.tell(NODE, "Quarantined", "n1 is out", warning=True, now=at, once=once)
        task = asyncio.create_task(said.run())
        await said._waiting.join()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(asyncio.wait_for(whole(), 5))
    return [each["count"] for key, each in server.objects.items() if key.startswith(PATH)]


def test_the_same_sentence_at_another_moment_counts_up():
    assert told(Server(), 1000.0, 1060.0) == [2]


def test_the_same_sentence_about_the_same_moment_is_said_once():
    assert told(Server(), 1000.0, 1000.0) == [1]


def test_what_can_be_true_but_once_is_said_once():
    assert told(Server(), 1000.0, 1060.0, once=True) == [1]


@pytest.mark.parametrize(
    "trouble", [DOWN, ApiError(409, "Conflict", "not now"), ApiError(429, "TooManyRequests", "later")], ids=repr
)
def test_what_the_server_does_not_take_is_told_again(trouble):
    server = Server()
    server.fails = [trouble] * 3

    assert told(server, 1000.0) == [1]


def test_an_event_whose_answer_was_lost_counts_once():
    server = Server()
    server.loses = 1

    assert told(server, 1000.0) == [1]


def test_who_leads_no_more_says_nothing():
    assert told(Server(), 1000.0, leads=False) == []


def test_the_events_of_a_namespace_that_is_gone_hold_up_nothing():
    server = Server()
    server.fails = [ApiError(404, "NotFound", "no such namespace")]

    assert told(server, 1000.0, 1060.0) == [1]


def test_what_is_refused_for_good_holds_up_nothing():
    server = Server()
    server.fails = [ApiError(403, "Forbidden", "no")]

    assert told(server, 1000.0, 1060.0) == [1]
