"""The replay: what it adds up, what it may know, and that it is the policy's own functions that decide."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest

from wheeltapper.config import BudgetSection, PolicySection
from wheeltapper.errors import WheeltapperError
from wheeltapper.evidence import Disposition, Source
from wheeltapper.simulate import policy as handed
from wheeltapper.simulate.compare import compare, expected
from wheeltapper.simulate.model import STRATEGIES, Placing, Settings, Strategy
from wheeltapper.simulate.place import Cluster
from wheeltapper.simulate.run import replay
from wheeltapper.simulate.trace import DAY_S, Cause, Ends, Fault, Trace, load

XID = Cause("hardware/gpu_xid", Source.KERNEL, Disposition.REBOOT, Ends.AT_ONCE)
DOWN = Cause("hardware/node_down", Source.SCHEDULER, Disposition.NONE, Ends.NODE_DOWN)
SLOW = Cause("hardware/nic", Source.CHECK, Disposition.INSPECT, Ends.WATCHDOG)
NODES = tuple(f"n{number:02}" for number in range(20))
OURS = STRATEGIES[0]
POLICY = PolicySection()


def trace(*faults, nodes=NODES, days=10.0):
    return Trace(nodes, tuple(sorted(faults, key=lambda each: each.start)), days * DAY_S)


def random_trace(seed, faults=60, days=60.0):
    chance = random.Random(seed)
    made = []
    for _ in range(faults):
        start = chance.uniform(0, days * DAY_S * 0.95)
        end = min(days * DAY_S, start + chance.uniform(0, 3 * DAY_S))
        made.append(Fault(chance.choice(NODES), start, end, chance.choice((XID, DOWN))))
    return trace(*made, days=days)


def test_one_fault_costs_what_can_be_worked_out_by_hand():
    """A job on all nodes but one: two hours and 40 minutes of work after the start, then the GPU dies."""
    fault = Fault("n00", 300 + 9600.0, DAY_S, XID)
    everybody = trace(*(replace(fault, node=node) for node in NODES[:1]), days=1.0)

    found = replay(everybody, Strategy("x", Placing.ANY, decides=True), Settings(19), POLICY, seed=_with_n00(everybody))

    assert (found.interruptions, found.lost, found.noticing, found.restarting) == (1, 2400.0, 60.0, 600.0)
    assert found.productive == DAY_S - 2400 - 60 - 600
    assert found.quarantined == 1
    assert found.lost_by_label == {"hardware/gpu_xid": 2400.0}


def _with_n00(of):
    """A seed in whose order the first node is used."""
    fit = set(NODES)
    return next(seed for seed in range(99) if "n00" in (Cluster(of, seed).choose(fit, 19, Placing.ANY, 0.0) or ()))


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda each: each.name)
@pytest.mark.parametrize("seed", range(3))
def test_the_parts_of_the_time_sum_to_the_whole(strategy, seed):
    found = replay(random_trace(seed), strategy, Settings(14, write_s=120.0), POLICY, seed)

    parts = found.productive + found.lost + found.writing + found.noticing + found.restarting + found.waiting
    assert parts == pytest.approx(found.span)
    assert sum(found.lost_by_label.values()) == pytest.approx(found.lost, abs=1e-3)
    assert 0 < found.ettr < 1


def test_the_same_seed_gives_the_same_outcome():
    runs = [replay(random_trace(1), OURS, Settings(14), POLICY, 5) for _ in range(2)]
    assert runs[0] == runs[1]


def test_the_clairvoyant_does_look_ahead():
    soon = trace(Fault("n00", 100.0, 200.0, XID))
    assert "n00" not in (Cluster(soon, 1).choose(set(NODES), 19, Placing.CLAIRVOYANT, 0.0) or ())


def test_a_careful_job_avoids_what_has_failed_the_last_first_however_long_ago():
    desk = handed.Desk(POLICY, len(NODES), most_excluded=64)
    for fault in (Fault("n00", DAY_S, 2 * DAY_S, XID), Fault("n01", 0.0, DAY_S, XID), Fault("n02", 0.0, 9.0, DOWN)):
        desk.proven(fault, fault.start)
    cluster = Cluster(trace(), 3)

    def unused(size, at):
        return set(NODES) - cluster.choose(set(NODES), size, Placing.CAREFUL, at, desk.avoided(at))

    assert desk.avoided(3 * DAY_S) == ["n00", "n01"], "nothing proves that n02 was at fault"
    for at in (3 * DAY_S, 3000 * DAY_S):
        assert unused(19, at) == {"n00"}
        assert unused(18, at) == {"n00", "n01"}


def test_a_job_may_use_a_guilty_node_when_it_is_back_and_a_suspect_after_a_day():
    desk = handed.Desk(POLICY, len(NODES), most_excluded=64)
    desk.hear(Fault("n00", 0.0, 3 * DAY_S, XID), NODES, 0.0)
    desk.hear(Fault("n01", 0.0, 60.0, DOWN), NODES, 0.0)

    assert desk.excluded(DAY_S - 1) == {"n00", "n01"}
    assert desk.excluded(DAY_S + 1) == {"n00"}
    assert desk.excluded(3 * DAY_S + 1) == set()


def test_many_faults_in_a_long_time_ask_no_person_and_many_in_a_short_time_do():
    def stops(apart):
        desk = handed.Desk(POLICY, len(NODES), most_excluded=64)
        for number in range(POLICY.infrastructure_retry_budget + 2):
            desk.hear(Fault("n00", 0.0, 1.0, DOWN), NODES, number * apart)
        return desk.stopped

    assert (stops(apart=DAY_S / 4), stops(apart=60.0)) == (0, 1)


def test_it_is_the_policy_that_decides(monkeypatch):
    asked = []

    def decide(diagnosis, attempt, history, *rest):
        asked.append((diagnosis.label, history.infrastructure))
        return real(diagnosis, attempt, history, *rest)

    real = handed.decide
    monkeypatch.setattr(handed, "decide", decide)
    found = replay(random_trace(2), OURS, Settings(16), POLICY, 1)

    assert len(asked) == found.interruptions > 0
    assert max(paid for _, paid in asked) <= POLICY.infrastructure_retry_budget


@pytest.mark.parametrize(
    ("cause", "move_after_s", "seconds"),
    [
        pytest.param(SLOW, 60.0, 180.0, id="a check of the node proves it"),
        pytest.param(replace(SLOW, source=Source.KERNEL), 60.0, 120.0, id="the kernel proves it"),
        pytest.param(SLOW, 0.0, 660.0, id="the policy moves no job"),
        pytest.param(SLOW, 3600.0, 660.0, id="the watchdog is sooner"),
        pytest.param(replace(SLOW, source=Source.SCHEDULER), 60.0, 660.0, id="nothing proves it"),
        pytest.param(replace(SLOW, disposition=Disposition.NONE), 60.0, 660.0, id="it takes no node out"),
        pytest.param(XID, 60.0, 60.0, id="the process dies by itself"),
        pytest.param(replace(SLOW, ends=Ends.NODE_DOWN), 60.0, 300.0, id="its agent is silent, too"),
    ],
)
def test_a_job_that_waits_for_its_watchdog_is_moved_before_where_the_node_proves_the_fault(
    cause, move_after_s, seconds
):
    fault = Fault("n00", DAY_S / 2, DAY_S, cause)
    found = replay(trace(fault, days=1.0), OURS, Settings(20), PolicySection(move_after_s=move_after_s), 1)
    assert found.noticing == seconds


def test_a_small_retry_budget_makes_people_wait_and_a_small_budget_of_nodes_blocks():
    plenty = replay(random_trace(3), OURS, Settings(16), POLICY, 1)
    few = replay(random_trace(3), OURS, Settings(16), PolicySection(infrastructure_retry_budget=0), 1)
    one = replay(random_trace(3), OURS, Settings(16), PolicySection(budget=BudgetSection(max_nodes=1)), 1)

    assert few.stopped_for_a_person > plenty.stopped_for_a_person
    assert few.waiting > plenty.waiting
    assert one.blocked > 0
    assert one.most_out == 1


def test_too_few_fit_nodes_is_waiting():
    faults = [Fault(node, 0.0, DAY_S, XID) for node in NODES[:10]]
    found = replay(trace(*faults, days=3.0), OURS, Settings(15), POLICY, 1)
    assert found.waiting + found.noticing == DAY_S


def test_what_spares_jobs_can_be_made_to_end_them():
    made = trace(*(Fault(node, DAY_S, 2 * DAY_S, DOWN, spares_jobs=True) for node in NODES[:3]))
    assert replay(made, OURS, Settings(20), POLICY, 1).interruptions == 0
    assert replay(made, OURS, Settings(20, every_entry_ends=True), POLICY, 1).interruptions > 0


def test_a_node_that_is_unfit_under_a_job_that_goes_on_is_left_out_of_its_next_start():
    alarm = Fault("n00", DAY_S, 9 * DAY_S, DOWN, spares_jobs=True)
    others = [Fault(node, 2 * DAY_S + number, 9 * DAY_S, XID) for number, node in enumerate(NODES[1:])]
    found = replay(trace(alarm, others[0]), OURS, Settings(18), POLICY, _with_n00(trace()))
    assert found.interruptions == 1
    assert found.waiting == 0, "18 of the 18 others are fit"
    assert replay(trace(alarm, *others[:2]), OURS, Settings(18), POLICY, 1).waiting > 0, "n00 is not taken"


def test_a_comparison_holds_every_strategy_at_every_cost_and_the_closed_form():
    found = compare(random_trace(4), Settings(14), POLICY, range(2), (0.0, 300.0))

    assert [line.strategy for line in found.lines] == [each.name for each in STRATEGIES] * 2
    assert found.lines[0].ettr > found.lines[len(STRATEGIES)].ettr, "a checkpoint that takes time costs time"
    assert found.closed_form[0.0] == expected(random_trace(4), Settings(14), POLICY) > found.closed_form[300.0]
    best = max(found.lines[: len(STRATEGIES)], key=lambda line: line.ettr)
    assert best.strategy == "clairvoyant placement"


def test_a_trace_file_is_read_and_a_wrong_one_is_named(tmp_path):
    path = tmp_path / "trace.json"
    kind = {"Level": "Hardware Failure", "Class": "GPU", "Desc": "GPU DBE(Double Bit ECC) > Threshold"}
    path.write_text(
        json.dumps(
            [
                {"node_id": "a", "event_time": 1.0, "event_type": "fault_start", "fault_type": kind},
                {"node_id": "a", "event_time": 1.5, "event_type": "fault_end", "fault_type": kind},
            ]
        )
    )

    found = load(path, 3)

    assert found.nodes == ("a", "healthy0000", "healthy0001")
    assert [(each.start, each.end, each.cause.label) for each in found.faults] == [
        (DAY_S, 1.5 * DAY_S, "hardware/ecc_uncorrectable")
    ]
    path.write_text('[{"node_id": "a"}]')
    with pytest.raises(WheeltapperError, match=r"trace\.json is no trace of faults"):
        load(path, 3)
