"""The operator under fire: whatever breaks, the cluster becomes what one operator in peace would have made of it."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter

import pytest
from aiohttp import web

from tests.e2e.kubernetes.fire.stories import (
    FAULTS,
    all_out,
    break_all,
    leading,
    move_a_gang,
    pair,
    play,
    refusing,
)
from tests.e2e.kubernetes.fire.world import is_quarantine, until, witnessed

BUDGET_PERCENT = 25.0
BUDGET = 5


@pytest.fixture(scope="module")
def in_peace(plane, tmp_path_factory):
    """What one operator that nobody disturbs makes of faults on all nodes."""

    async def story(made):
        nodes = await made.add_nodes(FAULTS)
        await leading(made)
        await break_all(made, nodes)
        return await all_out(made)

    return play(plane, tmp_path_factory.mktemp("in-peace"), story)


def test_peace_is_what_we_think_it_is(in_peace):
    first = in_peace["nodes"]["n1"]

    assert first["cordoned"]
    assert first["taints"][0] == "example.com/theirs=1"
    assert in_peace["events"] == sorted((f"n{number}", "Quarantined", 1) for number in range(1, FAULTS + 1))


def test_an_api_server_that_restarts_in_the_middle_of_twenty_quarantines(plane, tmp_path, in_peace):
    async def story(made):
        nodes = await made.add_nodes(FAULTS)
        operator = await leading(made)
        half = asyncio.Event()

        async def count(_write):
            if sum(is_quarantine(each) for each in operator.gate.writes) >= FAULTS // 2:
                half.set()

        operator.gate.after = count
        async with witnessed(made) as witness:
            await break_all(made, nodes)
            await asyncio.wait_for(half.wait(), 60)
            await made.restart_server()
            assert await all_out(made) == in_peace
        assert set(witness.times.values()) == {1}

    play(plane, tmp_path, story)


def test_versions_that_are_gone_while_the_operator_was_cut_off(plane, tmp_path, in_peace):
    async def story(made):
        nodes = await made.add_nodes(FAULTS)
        operator = await leading(made)
        operator.gate.cut()
        await break_all(made, nodes)
        # A server that has just started knows no version that etcd does not know.
        await made.restart_server(before=plane.compact)
        operator.gate.mend()
        assert await all_out(made) == in_peace
        assert "and all are listed again" in operator.log.read_text()

    play(plane, tmp_path, story)


def test_a_watch_through_which_nothing_comes_any_more(plane, tmp_path, in_peace):
    async def story(made):
        nodes = await made.add_nodes(FAULTS)
        operator = await leading(made)
        operator.gate.is_silent = True
        await break_all(made, nodes)
        await until(lambda: operator.gate.swallowed, "something that the operator does not hear")
        assert not await made.out()
        operator.gate.mend()
        assert await all_out(made) == in_peace

    play(plane, tmp_path, story)


def test_two_operators_at_once_do_everything_once(plane, tmp_path, in_peace):
    async def story(made):
        nodes = await made.add_nodes(FAULTS)
        both = await pair(made)
        async with witnessed(made) as witness:
            await break_all(made, nodes)
            assert await all_out(made) == in_peace
        assert set(witness.times.values()) == {1}
        idle = both[1]
        assert all(each.is_renewal for each in idle.gate.writes)

    play(plane, tmp_path, story)


def test_a_leader_that_was_frozen_writes_nothing_when_it_goes_on(plane, tmp_path):
    async def story(made):
        nodes = await made.add_nodes(FAULTS)
        frozen, other = await pair(made, BUDGET_PERCENT)
        async with witnessed(made) as witness:
            frozen.signal(signal.SIGSTOP)
            await until(lambda: other.leads, "another leader")
            await break_all(made, nodes)
            await until(lambda: _are_out(made, BUDGET), "the quarantines")
            before = len(frozen.gate.writes)
            frozen.signal(signal.SIGCONT)
            await until(lambda: "no longer leads" in frozen.log.read_text(), "the end of its leading")
            assert all(each.is_renewal for each in frozen.gate.writes[before:])
            assert witness.most == BUDGET

    play(plane, tmp_path, story)


def test_a_server_that_refuses_the_first_writes_of_everything(plane, tmp_path, in_peace):
    async def story(made):
        nodes = await made.add_nodes(FAULTS)
        operator = await leading(made, refuse=2)
        async with witnessed(made) as witness:
            await break_all(made, nodes)
            assert await all_out(made) == in_peace
        assert set(witness.times.values()) == {1}
        refused = Counter(each.path for each in operator.gate.writes if is_quarantine(each))
        assert min(refused.values()) == 3

    play(plane, tmp_path, story)


def test_the_budget_holds_at_every_moment_whatever_happens(plane, tmp_path):
    async def story(made):
        nodes = await made.add_nodes(FAULTS)
        first, second = await pair(made, BUDGET_PERCENT)
        for each in (first, second):
            each.gate.before = refusing(1)
        async with witnessed(made) as witness:
            await break_all(made, nodes)
            await until(lambda: witness.most >= 2, "the first quarantines")
            first.kill()
            await made.restart_server()
            await until(lambda: _are_out(made, BUDGET), "the quarantines")
            third = await made.operator(BUDGET_PERCENT)
            second.kill()
            await until(lambda: third.leads, "a third leader")
            await until(lambda: _blocked(made), "word of what the budget keeps in")
            assert witness.most == BUDGET
        assert sum(witness.times.values()) == BUDGET

    play(plane, tmp_path, story)


async def _are_out(made, count):
    return len(await made.out()) == count


async def _blocked(made):
    events = (await made.picture())["events"]
    return sum(reason == "QuarantineBlocked" for _, reason, _ in events) == FAULTS - BUDGET


def is_record(write):
    return write.method == "POST" and "/interruptions" in write.path


def is_order(write):
    return "/jobs/" in write.path and "suspend" not in write.body and '"ordered' in write.body.replace("\\", "")


def is_suspension(write):
    return "/jobs/" in write.path and write.says_suspend is True


def is_resumption(write):
    return "/jobs/" in write.path and write.says_suspend is False


def is_event(reason):
    return lambda write: "/events" in write.path and f'"{reason}"' in write.body


POINTS = {
    "quarantine": is_quarantine,
    "record": is_record,
    "order": is_order,
    "suspension": is_suspension,
    "resumption": is_resumption,
    "word of the quarantine": is_event("Quarantined"),
    "word of the interruption": is_event("Interrupted"),
    "word of the requeue": is_event("Requeued"),
}


@pytest.fixture(scope="module")
def moved_in_peace(plane, tmp_path_factory):
    """What one operator that nobody disturbs makes of a fault under a gang."""

    async def story(made):
        await leading(made)
        return await move_a_gang(made)

    return play(plane, tmp_path_factory.mktemp("moved-in-peace"), story)


def test_a_gang_is_moved_in_peace(moved_in_peace):
    assert moved_in_peace["interruptions"] == [("train", 1, "hardware/gpu_xid", "n1", "requeue", True)]
    assert moved_in_peace["events"] == [("n1", "Quarantined", 1), ("train", "Interrupted", 1), ("train", "Requeued", 1)]
    assert not moved_in_peace["jobs"]["train"]["suspended"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("what", POINTS)
def test_a_leader_that_is_killed_at_a_write(what, when, plane, tmp_path, moved_in_peace):
    """*before* it has reached the server, or *after*, when only the operator does not know that it has."""

    async def story(made):
        leader, _ = await pair(made)
        killed = asyncio.Event()

        async def kill(write):
            if POINTS[what](write) and not killed.is_set():
                killed.set()
                leader.kill()
                return web.Response(status=503)
            return None

        setattr(leader.gate, when, kill)
        assert await move_a_gang(made) == moved_in_peace
        assert killed.is_set()

    play(plane, tmp_path, story)


def test_a_gang_is_moved_by_operators_of_which_none_lives_long(plane, tmp_path, moved_in_peace):
    """None leads when the fault comes, and whoever writes something that none has died of dies of it."""

    async def story(made):
        left = list(POINTS)
        hunt = asyncio.create_task(_hunt(made, left))
        try:
            assert await move_a_gang(made) == moved_in_peace
        finally:
            hunt.cancel()
            await asyncio.gather(hunt, return_exceptions=True)
        # Two writes at once cost one life only.
        assert len(left) <= len(POINTS) // 2

    play(plane, tmp_path, story, seconds=400)


async def _hunt(made, left):
    """Start one operator after the other; each dies of the first write of a kind that was not tried yet."""
    while True:
        operator = await made.operator()
        dead = asyncio.Event()

        async def kill(write, operator=operator, dead=dead):
            kind = next((each for each in left if POINTS[each](write)), None)
            if kind is not None and not dead.is_set():
                left.remove(kind)
                dead.set()
                operator.kill()

        operator.gate.after = kill
        await dead.wait()


def test_a_server_that_refuses_the_first_writes_of_a_requeue(plane, tmp_path, moved_in_peace):
    async def story(made):
        await leading(made, refuse=2)
        assert await move_a_gang(made) == moved_in_peace

    play(plane, tmp_path, story)
