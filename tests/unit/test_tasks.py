"""A task ends though its first cancellation is lost."""

from __future__ import annotations

import asyncio

from wheeltapper import tasks


def test_a_task_that_loses_a_cancellation_is_cancelled_again(monkeypatch):
    monkeypatch.setattr(tasks, "AGAIN_S", 0.01)
    lost = []

    async def stubborn():
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                if len(lost) == 2:
                    raise
                lost.append(1)

    async def play():
        task = asyncio.create_task(stubborn())
        await asyncio.sleep(0)
        await tasks.end([task])
        return task.cancelled()

    assert asyncio.run(play())
    assert len(lost) == 2


def test_a_wait_that_is_done_in_the_moment_of_the_cancellation_keeps_no_loop_alive(monkeypatch):
    """Before Python 3.12, wait_for returns there as if nobody had cancelled it."""
    monkeypatch.setattr(tasks, "AGAIN_S", 0.01)

    async def play():
        woken = asyncio.Event()

        async def loop():
            while True:
                await asyncio.wait_for(woken.wait(), 3600)
                woken.clear()

        task = asyncio.create_task(loop())
        await asyncio.sleep(0.01)
        woken.set()
        await asyncio.sleep(0)
        await tasks.end([task])
        return task.cancelled()

    assert asyncio.run(play())


def test_what_a_task_ended_with_can_still_be_asked():
    async def fails():
        raise ValueError("so")

    async def play():
        task = asyncio.create_task(fails())
        await asyncio.sleep(0)
        await tasks.end([task])
        return task.exception()

    assert str(asyncio.run(play())) == "so"
