"""One probe in the agent: its readings over clock jumps and restarts, and a child that nothing can end."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import Any

import pytest

from tests.unit.make import BOOT
from wheeltapper.checks.model import Check, Context, Fault, Host, NoLimits, NotApplicable, Probe
from wheeltapper.checks.outcome import Result
from wheeltapper.checks.registry import Chosen
from wheeltapper_hooks.agent import probing, processes
from wheeltapper_hooks.agent.probing import ProbeRun
from wheeltapper_hooks.agent.runner import Runner
from wheeltapper_hooks.agent.tally import Tally

HOST = Host("n1", BOOT)
GROWS = Fault("errors", "network/link_errors", "errors grow")


class Clocks:
    """The two clocks, in a test's hands."""

    def __init__(self, monkeypatch):
        self.wall, self.mono = 1_000_000.0, 50.0
        monkeypatch.setattr(probing.time, "time", lambda: self.wall)
        monkeypatch.setattr(probing.time, "monotonic", lambda: self.mono)

    def pass_(self, seconds: float) -> None:
        self.wall += seconds
        self.mono += seconds


@pytest.fixture
def clocks(monkeypatch):
    return Clocks(monkeypatch)


def made(values: list[int], seen: list[Any], **options: Any) -> ProbeRun:
    """A probe that reads *values* one after the other; its check warns of growth and leaves its readings in *seen*."""
    left = iter(values)

    def judge(readings, host, _limits):
        seen[:] = readings
        if len(readings) > 1 and readings[-1].value > readings[0].value:
            yield GROWS.seen(host, readings[-1].at, "errors grow")

    probe = Probe("errors", lambda _host: next(left), **{"every_s": 60.0, "keep_s": 300.0, **options})
    return ProbeRun([Chosen(Check("errors", probe, judge), NoLimits(), "")], HOST, Tally())


def read(run: ProbeRun):
    return asyncio.run(run.freshen(0.0))


def test_a_clock_that_is_set_changes_no_distance_between_readings(clocks):
    seen: list[Any] = []
    run = made([1, 2, 3], seen)
    read(run)
    clocks.pass_(60)
    clocks.wall -= 7200
    read(run)
    clocks.pass_(60)
    clocks.wall += 90_000
    read(run)

    assert [later.at - first.at for first, later in itertools.pairwise(seen)] == [60.0, 60.0]
    assert seen[-1].at == clocks.wall


def test_readings_are_kept_as_long_as_the_probe_says(clocks):
    seen: list[Any] = []
    run = made(list(range(10)), seen)
    for _ in range(10):
        clocks.pass_(60)
        read(run)

    assert [each.value for each in seen] == [4, 5, 6, 7, 8, 9]


def test_a_reading_that_is_young_enough_is_not_repeated(clocks):
    seen: list[Any] = []
    run = made([1, 2], seen)
    read(run)
    clocks.pass_(30)
    assert asyncio.run(run.freshen(60.0)) == []
    clocks.pass_(31)
    asyncio.run(run.freshen(60.0))

    assert [each.value for each in seen] == [1, 2]


def test_what_stood_before_a_restart_stands_until_as_much_can_be_seen_again(clocks):
    """With one reading nothing can be said of growth, and that is no all-clear."""
    seen: list[Any] = []
    run = made([5] * 10, seen)
    before = GROWS.seen(HOST, 999_000.0, "errors grow")
    run.restore({"errors": [before]})
    changes = []
    for _ in range(6):
        changes += read(run)
        clocks.pass_(60)
        stands = run.standing["errors"]
        if seen[-1].at - seen[0].at < 180:
            assert stands == (before,)

    assert run.standing["errors"] == ()
    assert [each.ended for each in changes if each.ended] == [(before,)]


def test_a_child_that_cannot_be_killed_is_left_behind_and_no_second_is_started(clocks, monkeypatch):
    started = []
    alive = {4711}

    async def in_child(_work, deadline):
        started.append(deadline)
        if alive:
            raise processes.LeftBehind("the child", 4711)
        return b"\x80\x04K\x07."  # an integer is no answer of a child

    monkeypatch.setattr(probing, "in_child", in_child)
    monkeypatch.setattr(probing, "is_left_behind", lambda pid: pid in alive)
    run = made([1, 2, 3], [], may_hang=True)
    for _ in range(3):
        read(run)

    assert len(started) == 1
    (chosen,) = run.judges
    said = run.outcome(chosen)
    assert (said.result, said.reason) == (
        Result.UNKNOWN,
        "an earlier read hangs in process 4711, so no other is started",
    )
    alive.clear()
    monkeypatch.setattr(probing, "in_child", _whole)
    read(run)
    assert run.outcome(chosen).result is Result.OK


@pytest.mark.parametrize("cut", [1, 10])
def test_an_answer_that_breaks_off_is_no_reading(clocks, monkeypatch, cut):
    async def cut_off(work, _deadline):
        return work()[:-cut]

    monkeypatch.setattr(probing, "in_child", cut_off)
    run = made([1], [], may_hang=True)
    read(run)

    assert run.outcome(run.judges[0]).reason == "the child ended in the middle of its answer"


async def _whole(work, _deadline):
    return work()


def test_a_left_behind_child_is_remembered_until_it_is_gone(monkeypatch):
    gone: set[int] = set()
    monkeypatch.setattr(processes, "_ended", lambda pid: (pid, 9) if pid in gone else None)
    monkeypatch.setattr(processes, "REAP_S", 0.02)
    monkeypatch.setattr(processes.os, "kill", lambda *_: None)
    monkeypatch.setattr(processes.os, "killpg", lambda *_: None)
    monkeypatch.setattr(processes.os, "setpgid", lambda *_: None)
    monkeypatch.setattr(processes.os, "fork", lambda: 4711)

    with pytest.raises(processes.LeftBehind, match=r"process 4711\) hangs and cannot be killed"):
        asyncio.run(processes.in_child(bytes, 0.05))

    assert processes.is_left_behind(4711)
    gone.add(4711)
    assert not processes.is_left_behind(4711)


def test_the_age_of_a_reading_is_told(clocks):
    run = made([1], [])
    read(run)
    clocks.pass_(12)
    clocks.wall += 3600

    assert run.outcome(run.judges[0]).age_s == 12.0
    assert time.monotonic() == clocks.mono


def test_who_asks_with_little_time_waits_for_nothing_that_may_hang():
    quick, slow = [], []

    def judges(name, seen, **options):
        probe = Probe(name, lambda _host: seen.append(1), every_s=0.001, **options)
        return Chosen(Check(name, probe, lambda *_: ()), NoLimits(), "")

    async def ask():
        runner = Runner([judges("quick", quick), judges("slow", slow, may_hang=True)], HOST, lambda *_: None)
        await runner.freshen(1.0, Context.PREFLIGHT)

    asyncio.run(ask())

    assert (quick, slow) == ([1], [])


def test_a_check_may_find_in_what_was_read_that_it_does_not_apply(clocks):
    """One probe reads all of a GPU, and an older GPU does not tell everything."""
    tells: list[bool] = [True]

    def judge(readings, host, _limits):
        if not tells[0]:
            raise NotApplicable("no GPU here tells it")
        yield GROWS.seen(host, readings[-1].at, "errors grow")

    probe = Probe("gpus", lambda _host: 0)
    run = ProbeRun([Chosen(Check("errors", probe, judge), NoLimits(), "")], HOST, Tally())
    read(run)
    assert run.outcome(run.judges[0]).result is Result.WARN
    tells[0] = False
    (change,) = read(run)

    assert [each.signature for each in change.ended] == ["check.errors"]
    said = run.outcome(run.judges[0])
    assert (said.result, said.reason) == (Result.NOT_APPLICABLE, "no GPU here tells it")
    assert run.blindness() == ""


def test_who_waits_in_vain_is_told_how_long():
    async def ask():
        never = asyncio.Event()
        runner = Runner(made([1], []).judges, HOST, lambda *_: None)
        (run,) = runner._runs
        run._value = never.wait
        await runner.freshen(0.01, Context.PREFLIGHT, quick=False)
        return runner.outcomes()

    (said,) = asyncio.run(ask())
    assert (said.result, said.reason) == (Result.UNKNOWN, "it was not read within 0.01 s")


def test_what_cannot_be_pickled_is_kept_as_it_is(clocks):
    seen: list[Any] = []
    functions = [lambda: 1, lambda: 2]
    left = iter(functions)
    probe = Probe("functions", lambda _host: next(left), keep_s=300.0)
    check = Check("functions", probe, lambda readings, *_: seen.extend(each.value for each in readings) or ())
    run = ProbeRun([Chosen(check, NoLimits(), "")], HOST, Tally())
    read(run)
    read(run)

    assert seen == [functions[0], *functions]
