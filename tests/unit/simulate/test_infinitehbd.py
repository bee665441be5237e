"""The public trace of 400 nodes over 349 days."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.shared import shared
from wheeltapper.config import PolicySection
from wheeltapper.simulate.compare import LEARNING_S
from wheeltapper.simulate.model import STRATEGIES, Settings
from wheeltapper.simulate.policy import Desk
from wheeltapper.simulate.run import replay
from wheeltapper.simulate.trace import load
from wheeltapper.statistics import lemons

pytestmark = pytest.mark.shared


@pytest.fixture(scope="module")
def trace():
    return load(shared("data/infinitehbd/fault_trace.json"), 400)


@pytest.fixture(scope="module")
def faults(trace):
    return [lemons.Fault(each.node, each.start, each.end) for each in trace.faults]


def test_the_trace_is_read_whole(trace):
    assert (len(trace.nodes), len(trace.faults)) == (400, 584)
    assert trace.span / 86_400 == pytest.approx(348.98, abs=0.01)
    families = Counter(each.cause.label for each in trace.faults)
    assert families["hardware/ecc_uncorrectable"] == 60
    assert families["hardware/node_down"] < len(trace.faults) / 2 + 30


def test_what_spares_a_job_are_supplies_fans_and_tests_and_no_node_proves_them(trace):
    spared = Counter(each.cause.label for each in trace.faults if each.spares_jobs)
    assert spared == {"hardware/thermal": 33, "hardware/power": 26, "hardware/node_down": 99}

    desk = Desk(PolicySection(), 400, most_excluded=64)
    for fault in trace.faults:
        if fault.spares_jobs:
            desk.proven(fault, fault.start)
    assert (desk.avoided(trace.span), desk.quarantined) == ([], 0)


def test_flags_on_five_percent_of_the_nodes_foretell_a_fifth_of_the_later_faults(trace, faults):
    found = lemons.foresight(faults, 400, LEARNING_S, trace.span)

    assert found.most_share <= 0.05
    assert found.coverage >= 0.20
    assert found.precision.low > 2 * found.base


def test_a_repaired_node_fails_again_within_a_day_far_more_often_than_any_node(trace, faults):
    [day] = lemons.after_repair(faults, 400, 0.0, trace.span, [1.0])

    assert day.share.low > 0.2
    assert day.base == pytest.approx(0.004, abs=0.0005)


def test_the_policy_is_worth_more_than_people_and_less_than_foreknowledge(trace):
    by_name = {each.name: replay(trace, each, Settings(320), PolicySection(), 0).ettr for each in STRATEGIES}

    ordered = sorted(by_name, key=by_name.__getitem__, reverse=True)
    assert ordered == [
        "clairvoyant placement",
        "Wheeltapper",
        "Wheeltapper, any fit node",
        "timeout of 30 min, then drain",
        "a person drains after 30 min",
        "a person drains after 120 min",
    ]
