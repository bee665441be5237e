"""A job that hangs on hardware which its node proves to be broken is moved; every other job stays where it is."""

from __future__ import annotations

import pytest

from tests.e2e.slurm import scenes
from tests.e2e.slurm.cluster.files import PCI_ADDRESSES
from tests.e2e.slurm.story import CALM, FULL, drained, explain, explained, labelled, outcomes, repair

HANGS = '[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || exit 0; sleep 600'
"""The first attempt ignores the fault, as ranks do that wait for each other; the second has nothing left to do."""

ONE_GPU = "--gres=gpu:1"


@pytest.fixture(scope="module")
def running(start_cluster):
    config = {**FULL, "policy": {**FULL["policy"], "move_after_s": 2.0}}
    return start_cluster(nodes=3, config=config, healthcheck_interval=CALM)


@pytest.fixture
def cluster(running):
    yield running
    repair(running)


def started(cluster, *options, script=HANGS):
    """Submit a job with one GPU per node; return its id, and its first node when that has let it in."""
    job = cluster.sbatch(script, ONE_GPU, *options)
    cluster.wait_job(job, "RUNNING", 60.0)
    (node, *_) = scenes.nodes_of(cluster, job)
    marker = cluster.node(node).run_dir / "jobs" / cluster.job(job)["JobId"]
    cluster.wait(marker.exists, 30.0, f"the prolog of job {job}")
    return job, node


def gpu_of(cluster, job, node):
    """The PCI address of the one GPU of *job* on *node*."""
    marker = (cluster.node(node).run_dir / "jobs" / cluster.job(job)["JobId"]).read_text()
    return PCI_ADDRESSES[int(marker.partition("gpus=")[2])]


def stays(cluster, job, node, why):
    """Wait until the service has said that *job* stays where it is, and *why*."""
    said = f"job {job} still runs on {node} with hardware/gpu_xid xid=79 and stays there: {why}"
    cluster.wait(lambda: said in cluster.controller.log.read_text(), 60.0, said)
    assert cluster.job(job)["JobState"] == "RUNNING"


def test_a_job_that_hangs_on_a_lost_gpu_runs_elsewhere_and_its_neighbour_does_not_notice(cluster):
    job, bad = started(cluster, "--nodes=2", "--ntasks-per-node=1")
    neighbour, _ = started(cluster, f"--nodelist={bad}")

    cluster.node(bad).xid(79, gpu_of(cluster, job, bad))

    told = explained(cluster, job, timeout=90.0)
    assert labelled(told)[:2] == ("hardware/gpu_xid", "xid=79")
    assert (told["attempt"]["ending"], told["decision"]["job"]["payer"]) == ("failed", "infrastructure")
    assert outcomes(told) == dict.fromkeys(("end", "requeue", "annotate", "exclude", "start"), "done")
    done = cluster.wait_job(job, "COMPLETED", 90.0)
    assert (done["Restarts"], done["ExcNodeList"]) == ("1", bad)
    assert len(explain(cluster, job)) == 1
    assert drained(cluster) == {bad}
    kept = cluster.job(neighbour)
    assert (kept["JobState"], kept["Restarts"], explain(cluster, neighbour)) == ("RUNNING", "0", [])


def test_one_task_of_an_array_is_moved_alone(cluster):
    """The last task that begins bears the array's own number, by which all of them could be hit."""
    array = cluster.sbatch(HANGS, ONE_GPU, "--array=0-1", "--nodes=1")
    tasks = [f"{array}_{task}" for task in range(2)]
    for task in tasks:
        cluster.wait_job(task, "RUNNING", 60.0)
    (bad,) = scenes.nodes_of(cluster, tasks[1])
    folder = cluster.node(bad).run_dir / "jobs"
    cluster.wait((folder / cluster.job(tasks[1])["JobId"]).exists, 30.0, "its prolog")

    cluster.node(bad).xid(79, gpu_of(cluster, tasks[1], bad))

    told = explained(cluster, tasks[1], timeout=90.0)
    assert (told["attempt"]["job"], outcomes(told)["end"]) == (tasks[1], "done")
    other = cluster.job(tasks[0])
    assert (other["JobState"], other["Restarts"]) == ("RUNNING", "0")


def test_a_job_whose_user_said_off_stays_to_its_own_end(cluster):
    job, node = started(cluster, "--comment=grant 4711, wheeltapper=off")

    cluster.node(node).xid(79, gpu_of(cluster, job, node))

    stays(cluster, job, node, "the user asked not to have it run again (wheeltapper=off)")


def test_where_a_person_has_taken_the_node_out_the_job_stays(cluster):
    job, node = started(cluster)
    cluster.scontrol("update", f"NodeName={node}", "State=DRAIN", "Reason=admin: swapping a fan")

    cluster.node(node).xid(79, gpu_of(cluster, job, node))

    stays(cluster, job, node, "a person has taken its node out (admin: swapping a fan)")
