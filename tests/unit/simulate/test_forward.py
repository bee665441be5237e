"""No choice and no decision of a replay knows what comes: the trace is cut at any moment, and nothing before it changes.

Of a trace that is cut, what began before the cut stands in it, but how long it lasts is known only where it was over.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from tests.unit.simulate.test_simulate import POLICY, random_trace
from wheeltapper.config import PolicySection
from wheeltapper.simulate import policy as handed
from wheeltapper.simulate.model import STRATEGIES, Placing, Settings
from wheeltapper.simulate.place import Cluster
from wheeltapper.simulate.run import replay
from wheeltapper.simulate.trace import Trace

DAYS = 60.0
NO_LIMIT = PolicySection(infrastructure_retry_h=1e6)
"""A policy whose memory of a job's requeues has no end, so that a fault of long ago counts."""

BLIND = [each for each in STRATEGIES if each.placing is not Placing.CLAIRVOYANT]


def mixed(seed: int) -> Trace:
    """Return a random trace in which every fourth fault spares the job."""
    made = random_trace(seed, days=DAYS)
    faults = (replace(each, spares_jobs=number % 4 == 0) for number, each in enumerate(made.faults))
    return replace(made, faults=tuple(faults))


def cut(trace: Trace, now: float, seed: int) -> Trace:
    """Return *trace* as it was known at *now*, and go on from there with other faults and other repairs."""
    chance = Random(seed)
    past = [
        each if each.end <= now else replace(each, end=now + chance.uniform(0.0, trace.span - now))
        for each in trace.faults
        if each.start < now
    ]
    other = [each for each in mixed(seed + 1000).faults if each.start >= now]
    return replace(trace, faults=tuple(sorted([*past, *other], key=lambda each: (each.start, each.node))))


def told(trace, strategy, policy, size, every, until):
    """Return all that was chosen and decided up to *until* in a replay of *trace*, and on which history."""
    made = []

    class Watched(Cluster):
        def choose(self, fit, size, placing, now, avoided=()):
            found = super().choose(fit, size, placing, now, avoided)
            made.append((now, "choose", found))
            return found

    def decide(diagnosis, attempt, history, policy, now, failed=()):
        found = real(diagnosis, attempt, history, policy, now, failed)
        made.append((now, "decide", found, history))
        return found

    real = handed.decide
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wheeltapper.simulate.run.Cluster", Watched)
        patch.setattr(handed, "decide", decide)
        replay(trace, strategy, Settings(size, every_entry_ends=every), policy, 1)
    return [each for each in made if each[0] <= until]


@pytest.mark.parametrize("strategy", BLIND, ids=lambda each: each.name)
@settings(max_examples=25, deadline=None)
@given(
    seed=some.integers(0, 10_000),
    share=some.floats(0.05, 0.95),
    size=some.integers(8, 17),
    policy=some.sampled_from([POLICY, NO_LIMIT]),
    every=some.booleans(),
)
def test_what_comes_changes_nothing_that_was_done_before(strategy, seed, share, size, policy, every):
    now = share * DAYS * 86_400
    known = mixed(seed)

    before = told(known, strategy, policy, size, every, now)

    assert before, "the job is placed at the very beginning"
    assert before == told(cut(known, now, seed), strategy, policy, size, every, now)


def test_the_same_test_catches_the_clairvoyant():
    known = mixed(3)
    now = 30 * 86_400.0
    [oracle] = [each for each in STRATEGIES if each.placing is Placing.CLAIRVOYANT]

    assert told(known, oracle, POLICY, 14, False, now) != told(cut(known, now, 3), oracle, POLICY, 14, False, now)
