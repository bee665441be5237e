"""Every kind of job: each end is recorded once under the right name, and nothing is requeued twice."""

from __future__ import annotations

import time
from datetime import datetime

import pytest

from tests.e2e.slurm import scenes
from tests.e2e.slurm.cluster import QUICK_SCHEDULING, Hooks
from tests.e2e.slurm.probes import Probes
from tests.e2e.slurm.story import CALM, FULL, explain, explained, labelled, open_attempts, repair

CONFIG = {**FULL, "controller": {"gather_deadline_s": 6.0}}
OOM = f"cat <<'END'\n{scenes.CUDA_OOM}\nEND"
ONCE = '[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || exit 0'
"""The first attempt goes on from here; the second has nothing left to do."""


@pytest.fixture(scope="module")
def running(start_cluster):
    preemption = {
        "PreemptType": "preempt/partition_prio",
        "PreemptMode": "REQUEUE",
        "PartitionName": "urgent Nodes=ALL PriorityTier=10 PreemptMode=OFF",
    }
    return start_cluster(nodes=3, config=CONFIG, healthcheck_interval=CALM, accounting=True, conf=preemption)


@pytest.fixture
def cluster(running):
    yield running
    repair(running)


def needs_nothing(cluster, job):
    """Wait until the service has dealt with the job's end, and left no record of it."""
    said = f"job {job}: attempt "
    cluster.wait(lambda: said in cluster.controller.log.read_text(), 20.0, f"the end of job {job} to be heard")
    assert explain(cluster, job) == []


def at_once(cluster, job):
    """Let a job start that Slurm has requeued itself, before its old credential has run out, but in a later second."""
    cluster.scontrol("update", f"JobId={job}", "StartTime=now+1")


def test_a_heterogeneous_job_is_one_job(cluster):
    """The fault is on the node of a part that cannot be acted on; the leader is requeued, and no part returns there."""
    until = cluster.layout.work / "het-go"
    script = (
        f"#!/bin/sh\n#SBATCH --nodes=1\n#SBATCH hetjob\n#SBATCH --nodes=1\n{ONCE}\n"
        f"while [ ! -e {until} ]; do sleep 0.1; done; exit 1"
    )
    job = cluster.sbatch(script)
    part = str(int(job) + 1)
    cluster.wait_job(job, "RUNNING")
    (bad,) = scenes.nodes_of(cluster, part)
    cluster.node(bad).xid(79)
    cluster.node(bad).wait_verdict("fail")
    until.touch()

    told = explained(cluster, job)

    assert labelled(told)[:2] == ("hardware/gpu_xid", "xid=79")
    assert (told["attempt"]["job"], told["attempt"]["components"]) == (job, [part])
    assert sorted(told["attempt"]["nodes"]) == sorted({bad, *told["attempt"]["nodes"]})
    for each in (job, part):
        done = cluster.wait_job(each, "COMPLETED", 60.0)
        assert (done["Restarts"], done["ExcNodeList"]) == ("1", bad)
        assert done["NodeList"] != bad
    assert len(explain(cluster, job)) == 1
    assert explain(cluster, part) == []


def test_an_interactive_job_is_told_and_never_requeued(cluster):
    ended = cluster.run("salloc", "--nodes=1", "--job-name=by-hand", "sh", "-c", "srun true; exit 4", check=False)
    assert ended.returncode == 4
    job = max((each["JobId"] for each in cluster.jobs), key=int)

    told = explained(cluster, job)

    assert told["decision"]["job"]["reason"] == "an interactive job is diagnosed and never requeued"
    assert "Not read" not in told["diagnosis"]["sentence"]
    assert cluster.job(job)["Restarts"] == "0"


@pytest.mark.parametrize("nodes", [2, 1], ids=["one of two nodes", "its only node"])
def test_what_slurm_requeues_when_a_node_fails_is_not_requeued_twice(cluster, nodes):
    job = cluster.sbatch(f"{ONCE}; sleep 60", f"--nodes={nodes}")
    began = datetime.fromisoformat(cluster.wait_job(job, "RUNNING")["StartTime"]).timestamp()
    bad = scenes.nodes_of(cluster, job)[-1]
    node = cluster.node(bad)
    cluster.wait(lambda: time.time() > began + 4.0, 10.0, "the job to have run for a while")
    node.crash()
    cluster.scontrol("update", f"NodeName={bad}", "State=DOWN", "Reason=pulled the plug")

    told = explained(cluster, job)

    # A late answer of the node may have brought it back in slurmctld's eyes.
    cluster.scontrol("update", f"JobId={job}", f"ExcNodeList={bad}")
    at_once(cluster, job)
    assert told["attempt"]["ending"] == "node_fail"
    assert told["attempt"]["start"] == pytest.approx(began, abs=2.0), "22.05 itself no longer shows it"
    assert labelled(told)[0] == "hardware/node_down"
    assert told["decision"]["job"]["reason"] == "the scheduler has requeued the job already"
    assert cluster.wait_job(job, "COMPLETED", 60.0)["Restarts"] == "1"
    assert len(explain(cluster, job)) == 1
    for daemon in (node.agent, node.slurmd):
        daemon.start()
        cluster.wait(daemon.ready, 15.0, f"{daemon.name} to be back")


def test_what_slurm_requeues_to_make_room_is_not_requeued_twice(cluster):
    job = cluster.sbatch(f"{ONCE}; sleep 60", "--nodes=3", "--exclusive", "--partition=main")
    cluster.wait_job(job, "RUNNING")

    urgent = cluster.sbatch("true", "--nodes=3", "--exclusive", "--partition=urgent")

    told = explained(cluster, job)
    at_once(cluster, job)
    assert labelled(told)[0] == "scheduler/preempted"
    assert told["decision"]["job"]["reason"] == "the scheduler has requeued the job already"
    cluster.wait_job(urgent, "COMPLETED", 30.0)
    assert cluster.wait_job(job, "COMPLETED", 60.0)["Restarts"] == "1"
    assert len(explain(cluster, job)) == 1


def test_a_suspended_job_is_no_interruption_and_its_end_is_told_like_any_other(cluster):
    goes_on, stopped = cluster.sbatch("sleep 1"), scenes.idle(cluster)
    for job in (goes_on, stopped):
        cluster.wait_job(job, "RUNNING")
        cluster.scontrol("suspend", job)
        assert cluster.job(job)["JobState"] == "SUSPENDED"

    cluster.scontrol("resume", goes_on)
    cluster.run("scancel", stopped)

    assert labelled(explained(cluster, stopped))[0] == "scheduler/cancelled"
    cluster.wait_job(goes_on, "COMPLETED", 30.0)
    needs_nothing(cluster, goes_on)


def test_a_job_shorter_than_any_interval_of_the_agents_is_recorded_once(cluster):
    jobs = [cluster.sbatch("exit 3", "--no-requeue") for _ in range(5)]

    for job in jobs:
        told = explained(cluster, job)
        assert (told["attempt"]["exit_code"], len(explain(cluster, job))) == (3, 1)


def test_a_step_that_fails_in_a_script_that_goes_on_is_no_interruption(cluster):
    job = cluster.sbatch("srun false; srun sh -c 'exit 3'; srun true")

    cluster.wait_job(job, "COMPLETED", 30.0)

    needs_nothing(cluster, job)


def test_a_log_that_only_its_own_node_can_read_is_read_there(cluster):
    job = cluster.sbatch(f"sleep 0.3\n{OOM}\nexit 1", "--output=/var/lib/wheeltapper/%x-%j.out", "--job-name=far")

    root = explained(cluster, job)["diagnosis"]["chain"][0]

    assert (root["label"], root["evidence"]["file"]) == ("software/oom", f"/var/lib/wheeltapper/far-{job}.out")


def test_a_log_in_json_is_read(cluster):
    line = '{"ts": "2026-11-29T12:00:00Z", "rank": 0, "level": "ERROR", "msg": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.10 GiB"}'
    job = cluster.sbatch(f"sleep 0.3; echo '{line}'; exit 1", "--output=%x-%j.jsonl", "--job-name=j")

    root = explained(cluster, job)["diagnosis"]["chain"][0]

    assert (root["label"], root["evidence"]["file"]) == ("software/oom", f"{cluster.layout.work}/j-{job}.jsonl")


def test_a_task_of_an_array_has_a_log_of_its_own(cluster):
    array = cluster.sbatch(
        f'sleep 0.3; [ "$SLURM_ARRAY_TASK_ID" = 1 ] || {{ {OOM}\n}}; exit 1',
        "--array=1-2", "--output=%x-%A_%a.log", "--job-name=many", "--no-requeue",
    )  # fmt: skip

    first, second = explained(cluster, f"{array}_1"), explained(cluster, f"{array}_2")

    assert labelled(first)[0] == "unknown/unknown"
    assert second["diagnosis"]["chain"][0]["evidence"]["file"].endswith(f"/many-{array}_2.log")


@pytest.mark.parametrize(
    ("script", "file"),
    [
        pytest.param(
            "srun --ntasks=2 --output=rank-%j-%t.out sh -c '[ $SLURM_PROCID = 1 ] || exit 0; {fail}'",
            "rank-{job}-1.out",
            id="tasks of srun",
        ),
        pytest.param(
            "d=tr-$$/none_ab12/attempt_0/1; mkdir -p $d; ( {fail} ) >$d/stderr.log || exit 1",
            "/none_ab12/attempt_0/1/stderr.log",
            id="workers of torchrun",
        ),
    ],
)
def test_the_log_of_a_single_rank_tells_what_the_jobs_own_does_not(cluster, script, file):
    line = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 79.10 GiB"
    fail = f'sleep 0.3; echo "{line}"; exit 1'
    job = cluster.sbatch(script.format(fail=fail), "--ntasks=2", "--no-requeue")

    root = explained(cluster, job)["diagnosis"]["chain"][0]

    assert root["label"] == "software/oom"
    assert root["evidence"]["file"].endswith(file.format(job=job))


def test_a_report_that_comes_after_the_decision_amends_it_once(cluster):
    """The node cannot prove its name for a while, so the service does not hear it before its deadline."""
    key = cluster.node("node1").files.etc / "key"
    right = key.read_text()
    key.write_text("0" * len(right))
    job = scenes.out_of_memory(cluster, "--nodelist=node1", "--no-requeue")
    assert labelled(explained(cluster, job))[0] == "unknown/unknown"

    key.write_text(right)

    cluster.wait(lambda: labelled(explained(cluster, job))[0] == "software/oom", 30.0, "the record to be amended")
    (told,) = explain(cluster, job)
    assert told["amended_at"] > told["decided_at"]
    assert open_attempts(cluster) == []
    assert cluster.job(job)["Restarts"] == "0"


def test_a_job_that_slurm_holds_for_another_programs_prolog_stays_held(start_cluster, tmp_path):
    probes = Probes(tmp_path / "probes")
    probes.set("prolog", "exit 1")
    cluster = start_cluster(
        nodes=1,
        config=FULL,
        hooks=Hooks(prolog=probes.folder / "prolog"),
        healthcheck_interval=CALM,
        conf={"SchedulerParameters": QUICK_SCHEDULING},
    )
    job = cluster.sbatch("true")

    told = explained(cluster, job)

    assert told["decision"]["job"]["reason"] == "the scheduler has requeued the job already"
    held = cluster.job(job)
    assert (held["JobState"], held["Priority"], held["Reason"]) == ("PENDING", "0", "launch_failed_requeued_held")
