from __future__ import annotations

import pytest

from tests.unit.make import attempt, diagnosis, logged, xid79
from wheeltapper.attempt import Ending
from wheeltapper.config import PolicySection
from wheeltapper.labels import ALL
from wheeltapper.policy.decide import decide
from wheeltapper.policy.model import History, Payer

POLICY = PolicySection()
NEVER = History()


def decision(of, case=None, history=NEVER, policy=POLICY):
    return decide(of, case or attempt(), history, policy, now=1200.0)


def test_confirmed_hardware_takes_the_node_out_and_runs_the_job_elsewhere_at_nobody_elses_cost():
    made = decision(diagnosis("hardware/gpu_xid", xid79(), nodes=("n2",), confirmed=True))

    assert [action.node for action in made.quarantine] == ["n2"]
    assert made.quarantine[0].reason.startswith("wheeltapper: hardware/gpu_xid xid=79 gpu=0000:3b:00 job=12 at=")
    assert (made.job.requeue, made.job.exclude, made.job.payer) == (True, ("n2",), Payer.INFRASTRUCTURE)
    assert made.job.reason == (
        "hardware/gpu_xid xid=79 was the machine's fault, so the job runs again without n2 at no cost to its retries"
    )


def test_suspected_hardware_takes_nothing_out():
    made = decision(diagnosis("hardware/thermal", nodes=("n2",)))

    assert made.quarantine == ()
    assert (made.job.requeue, made.job.exclude) == (True, ("n2",))


@pytest.mark.parametrize("name", sorted(name for name in ALL if name.startswith("software/")))
def test_a_software_fault_is_neither_requeued_nor_held_against_a_node(name):
    made = decision(diagnosis(name, logged(name), nodes=("n1",)))

    assert made.quarantine == ()
    assert not made.job.requeue
    assert "something went wrong (/home/u/slurm-12.out:34)" in made.job.reason


def test_a_transient_failure_waits_twice_as_long_each_time_up_to_the_limit():
    flap = diagnosis("network/link_down", nodes=("n2",))

    delays = [
        decision(flap, history=History(user=count), policy=PolicySection(retry_budget=99)).job.delay
        for count in range(8)
    ]

    assert delays == [60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3600.0, 3600.0]


@pytest.mark.parametrize(
    ("suspects", "nodes", "excluded"),
    [
        pytest.param(("n2",), ("n1", "n2"), ("n2",), id="one node stands out"),
        pytest.param(("n1", "n2"), ("n1", "n2"), (), id="several suspects are none"),
        pytest.param(("n1",), ("n1",), (), id="a job of one node"),
    ],
)
def test_whom_a_transient_failure_avoids(suspects, nodes, excluded):
    made = decision(diagnosis("network/nccl_timeout", nodes=suspects), attempt(nodes=nodes))

    assert made.job.exclude == excluded


@pytest.mark.parametrize(
    ("name", "requeue"),
    [
        ("scheduler/preempted", True),
        ("scheduler/evicted", True),
        ("scheduler/maintenance", True),
        ("scheduler/time_limit", False),
        ("scheduler/cancelled", False),
        ("scheduler/quota", False),
        ("resource/disk_full", False),
        ("resource/host_oom", False),
        ("unknown/unknown", True),
    ],
)
def test_what_is_tried_again(name, requeue):
    assert decision(diagnosis(name)).job.requeue is requeue


@pytest.mark.parametrize(
    ("changes", "history", "name", "why"),
    [
        pytest.param({"batch": False}, History(), "network/link_down", "interactive", id="interactive"),
        pytest.param({"requeueable": False}, History(), "network/link_down", "--no-requeue", id="no-requeue"),
        pytest.param({"leave_alone": "it is elastic"}, History(), "hardware/pcie", "it is elastic", id="not ours"),
        pytest.param({"scheduler_requeued": True}, History(), "hardware/node_down", "already", id="Slurm did it"),
        pytest.param({"ending": Ending.CANCELLED}, History(), "network/link_down", "cancelled", id="cancelled"),
        pytest.param({}, History(user=3), "network/link_down", "used up its 3 retries", id="retries used up"),
        pytest.param({}, History(blind=1), "unknown/unknown", "did not help", id="unknown twice"),
        pytest.param({}, History(infrastructure=10), "hardware/pcie", "a person should look", id="machines fail it"),
    ],
)
def test_what_forbids_a_requeue_and_says_so(changes, history, name, why):
    made = decision(diagnosis(name, nodes=("n2",)), attempt(**changes), history)

    assert not made.job.requeue
    assert why in made.job.reason


def test_the_machines_faults_do_not_use_up_the_users_retries():
    made = decision(diagnosis("network/link_down"), history=History(infrastructure=9))

    assert made.job.requeue


def test_a_job_that_the_prolog_kept_off_runs_elsewhere_though_slurm_has_requeued_it():
    case = attempt(ending=Ending.LAUNCH_FAILED, scheduler_requeued=True)

    made = decision(diagnosis("hardware/gpu_xid", xid79(), nodes=("n2",), confirmed=True), case)

    assert (made.job.requeue, made.job.exclude, made.job.payer) == (True, ("n2",), Payer.NOBODY)


def test_a_large_job_that_runs_again_avoids_nodes_that_have_failed_and_a_small_one_does_not():
    cause = diagnosis("network/link_down", logged("network/link_down"))
    policy = PolicySection(probation_max_nodes=2)
    large, small = attempt(nodes=("n1", "n2", "n3")), attempt(nodes=("n1", "n2"))

    assert decide(cause, large, History(), policy, 0.0, ["n9", "n8"]).job.avoid == ("n9", "n8")
    assert decide(cause, small, History(), policy, 0.0, ["n9"]).job.avoid == ()


LINK = diagnosis("network/link_down", logged("network/link_down"))


def test_the_same_root_at_the_same_step_twice_ends_the_loop():
    before = History(user=1, roots=frozenset({("network/link_down", 40)}))

    same = decision(LINK, attempt(step=40), before)
    assert not same.job.requeue
    assert same.job.reason == "network/link_down has stopped the job at step 40 before, and would again"
    assert decision(LINK, attempt(step=41), before).job.requeue
    assert decision(LINK, attempt(step=None), before).job.requeue
    other = diagnosis("network/dns", logged("network/dns"))
    assert decision(other, attempt(step=40), before).job.requeue


def test_a_broken_machine_that_keeps_a_job_from_going_on_ends_it_too_and_a_preemption_does_not():
    before = History(roots=frozenset({("hardware/gpu_xid xid=79", 40), ("scheduler/preempted", 40)}))
    gpu = diagnosis("hardware/gpu_xid", xid79(), nodes=("n2",), confirmed=True)

    assert not decision(gpu, attempt(step=40), before).job.requeue
    assert decision(gpu, attempt(step=40), before).quarantine
    preempted = diagnosis("scheduler/preempted", logged("scheduler/preempted"))
    assert decision(preempted, attempt(step=40), before).job.requeue


@pytest.mark.parametrize(
    ("wish", "by_default", "again"),
    [(None, True, True), (None, False, False), (True, False, True), (False, True, False), (True, True, True)],
)
def test_a_user_may_opt_out_and_where_the_site_wants_it_must_opt_in(wish, by_default, again):
    made = decision(LINK, attempt(wants_requeue=wish), policy=PolicySection(requeue_by_default=by_default))

    assert made.job.requeue is again
    assert again or "wheeltapper=" in made.job.reason


def test_what_our_own_prolog_kept_off_runs_elsewhere_whatever_the_user_wished():
    """Otherwise our verdict, and not the user's code, would be what ended the job."""
    gpu = diagnosis("hardware/gpu_xid", xid79(), nodes=("n2",), confirmed=True)

    assert decision(gpu, attempt(ending=Ending.LAUNCH_FAILED, wants_requeue=False)).job.requeue
