"""Jobs that run again: who wished it, where, and when it ends."""

from __future__ import annotations

import pytest

from tests.e2e.slurm import scenes
from tests.e2e.slurm.story import CALM, FULL, drained, explain, explained, repair
from tests.e2e.slurm.test_limits import FLAKY


@pytest.fixture(scope="module")
def running(start_cluster):
    soon = {"backoff_s": 0.5, "release": {"hold_s": 1.0, "repeat_quarantines": 100}}
    config = {**FULL, "policy": {**FULL["policy"], **soon}, "agent": {"health_interval_s": 1.0}}
    config |= {"controller": {"gather_deadline_s": 60.0}}
    return start_cluster(nodes=3, config=config, healthcheck_interval=CALM)


@pytest.fixture
def cluster(running):
    yield running
    repair(running)


def test_a_user_who_does_not_want_it_is_not_run_again(cluster):
    job = cluster.sbatch(FLAKY, "--comment=grant 4711, wheeltapper=off")

    told = explained(cluster, job)

    assert told["diagnosis"]["label"] == "network/transport"
    assert told["decision"]["job"]["reason"] == "the user asked not to have it run again (wheeltapper=off)"
    assert cluster.wait_job(job, "FAILED")["Restarts"] == "0"


def test_the_same_end_at_the_same_step_twice_stops_the_job_before_its_retries_are_used_up(cluster):
    job = cluster.sbatch(f"echo 'step 41 loss 2.0'; echo 'step 42 loss 2.0'; {FLAKY}")

    told = explained(cluster, job, attempts=2, timeout=60.0)

    assert [each["attempt"]["step"] for each in explain(cluster, job)] == [42, 42]
    assert told["decision"]["job"]["reason"].startswith("network/transport")
    assert told["decision"]["job"]["reason"].endswith("has stopped the job at step 42 before, and would again")
    assert cluster.wait_job(job, "FAILED")["Restarts"] == "1"


def test_a_job_that_needs_every_node_waits_for_the_one_that_broke_and_runs_when_it_is_back(cluster):
    """It would wait for ever if it went on excluding the node."""
    job = scenes.train(cluster, nodes=3)
    scenes.in_step(cluster, job)
    bad = scenes.nodes_of(cluster, job)[1]
    cluster.node(bad).xid(79)
    explained(cluster, job)
    cluster.wait(lambda: cluster.job(job)["ExcNodeList"] == bad, 30.0, f"the job to exclude {bad}")
    assert drained(cluster) == {bad}

    cluster.node(bad).reboot()

    cluster.wait_job(job, "COMPLETED", 90.0)
    assert f"may use {bad} again" in cluster.controller.log.read_text()
    assert drained(cluster) == set()
