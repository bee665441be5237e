"""The loop on a real cluster: evidence, diagnosis, drain, requeue."""

from __future__ import annotations

import re

import pytest

from tests.e2e.slurm import scenes
from tests.e2e.slurm.story import CALM, FULL, drained, explain, explained, labelled, outcomes, repair


@pytest.fixture(scope="module")
def running(start_cluster):
    return start_cluster(nodes=4, config=FULL, healthcheck_interval=CALM, accounting=True)


@pytest.fixture
def cluster(running):
    yield running
    repair(running)


@pytest.mark.parametrize(
    ("code", "label", "detail", "to_do"),
    [
        pytest.param(79, "hardware/gpu_xid", "xid=79", "reboot", id="fallen off the bus"),
        pytest.param(48, "hardware/ecc_uncorrectable", "xid=48", "reset the GPU", id="uncorrectable ECC error"),
    ],
)
def test_a_gpu_that_breaks_takes_its_node_out_and_the_job_finishes_elsewhere(cluster, code, label, detail, to_do):
    job = scenes.train(cluster)
    scenes.in_step(cluster, job)
    bad = scenes.nodes_of(cluster, job)[1]

    cluster.node(bad).xid(code)

    told = explained(cluster, job)
    assert labelled(told) == (label, detail, "network/nccl_timeout")
    assert told["diagnosis"]["confirmed"]
    assert drained(cluster) == {bad}
    reason = cluster.node_state(bad)[1]
    shape = rf"wheeltapper: {label} {detail} gpu=0000:3b:00 job={job} at=\d{{4}}-\d\d-\d\dT[\d:]{{8}}Z: {to_do}"
    assert re.fullmatch(shape, reason), reason
    done = cluster.wait_job(job, "COMPLETED", 60.0)
    assert bad not in done["NodeList"]
    assert done["ExcNodeList"] == bad
    assert done["Restarts"] == "1"
    assert f"{label} {detail}" in done["AdminComment"]
    assert "resuming from step" in cluster.output(job)
    assert len(explain(cluster, job)) == 1


def test_cuda_out_of_memory_is_the_users_and_nothing_is_done_but_told(cluster):
    job = scenes.out_of_memory(cluster)

    told = explained(cluster, job)

    assert labelled(told)[0] == "software/oom"
    assert outcomes(told) == {"annotate": "done"}
    done = cluster.wait_job(job, "FAILED")
    # slurmctld takes no comment on a job that has ended; slurmdbd does, though sacctmgr changes its case and quotes.
    comment = cluster.admin_comment(job)
    assert re.search(
        rf"software/oom at \S*slurm-{job}\.out:6: .torch\.outofmemoryerror: cuda out of memory", comment.lower()
    )
    assert done["Restarts"] == "0"
    assert drained(cluster) == set()


def test_a_link_that_went_down_and_came_back_means_a_later_try_and_no_drain(cluster):
    job = scenes.train(cluster)
    scenes.in_step(cluster, job)
    bad = scenes.nodes_of(cluster, job)[1]

    cluster.node(bad).kmsg("mlx5_core 0000:1a:00.0 ib0: Link down")
    cluster.node(bad).kmsg("mlx5_core 0000:1a:00.0 ib0: Link up")

    told = explained(cluster, job)
    assert labelled(told)[0] == "network/link_down"
    assert told["decision"]["job"]["delay"] == 2.0
    assert [act["value"] for act in told["acts"] if act["kind"] == "start"] == ["now+2"]
    assert cluster.wait_job(job, "COMPLETED", 60.0)["Restarts"] == "1"
    assert drained(cluster) == set()


def test_the_prolog_keeps_a_job_off_a_broken_node_and_it_runs_elsewhere(cluster):
    cluster.node("node1").xid(79)
    cluster.node("node1").wait_verdict("fail")

    job = scenes.train(cluster, nodes=1, steps=2)

    done = cluster.wait_job(job, "COMPLETED", 60.0)
    assert done["NodeList"] != "node1"
    assert done["Restarts"] == "1"
    assert cluster.node_state("node1")[1].startswith("wheeltapper: hardware/gpu_xid xid=79")
    told = explained(cluster, job)
    assert told["attempt"]["ending"] == "launch_failed"
    assert told["decision"]["job"]["payer"] == "nobody"


def test_two_jobs_on_one_node_are_told_apart_by_their_gpus(cluster):
    """Two jobs share a node; the GPU of one breaks; the other goes on and is not said to have been interrupted."""
    one = scenes.train(cluster, "--nodelist=node1", "--gres=gpu:1", "--no-requeue", nodes=1, steps=200)
    scenes.in_step(cluster, one, 0)
    other = scenes.idle(cluster, "--nodelist=node1", "--gres=gpu:1", seconds=5)
    cluster.wait_job(other, "RUNNING")

    cluster.node("node1").xid(79, pci="0000:3b:00")
    cluster.node("node1").wait_verdict("fail")
    cluster.run("scancel", "--signal=ABRT", "--full", one)

    told = explained(cluster, one)
    assert labelled(told)[:2] == ("hardware/gpu_xid", "xid=79")
    assert "DRAIN" in cluster.node_state("node1")[0]
    assert cluster.wait_job(other, "COMPLETED", 30.0)["Restarts"] == "0"
    assert explain(cluster, other) == []


def test_another_jobs_gpu_does_not_explain_this_jobs_end(cluster):
    """The GPU that broke is not this job's, so the job's own out-of-memory error stays its own."""
    neighbour = scenes.idle(cluster, "--nodelist=node2", "--gres=gpu:1", seconds=8)
    cluster.wait_job(neighbour, "RUNNING")
    cluster.node("node2").xid(79, pci="0000:3b:00")

    job = scenes.out_of_memory(cluster, "--nodelist=node3", "--gres=gpu:1")

    assert labelled(explained(cluster, job))[0] == "software/oom"
    cluster.run("scancel", neighbour)


def test_a_task_of_an_array_is_requeued_alone(cluster):
    """One task keeps the array's own number; requeueing that number would kill its healthy sisters."""
    script = (
        'if [ "$SLURM_ARRAY_TASK_ID" = 3 ] && [ "${SLURM_RESTART_COUNT:-0}" = 0 ]; then sleep 1;'
        " echo 'node3:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.7<5> with status=12 opcode=0 len=0'"
        " 'vendor err 129 (Recv)'; exit 1; fi; sleep 8"
    )
    array = cluster.sbatch(script, "--array=1-3")

    told = explained(cluster, f"{array}_3")

    assert told["attempt"]["job"] == f"{array}_3"
    assert labelled(told)[0].startswith("network/")
    for task in (1, 2, 3):
        done = cluster.wait_job(f"{array}_{task}", "COMPLETED", 60.0)
        assert done["Restarts"] == ("1" if task == 3 else "0")


def test_a_job_submitted_with_no_requeue_is_diagnosed_and_left(cluster):
    job = scenes.train(cluster, "--no-requeue")
    scenes.in_step(cluster, job)
    bad = scenes.nodes_of(cluster, job)[1]

    cluster.node(bad).xid(79)

    told = explained(cluster, job)
    assert labelled(told)[:2] == ("hardware/gpu_xid", "xid=79")
    assert told["decision"]["job"] == {**told["decision"]["job"], "requeue": False}
    assert "--no-requeue" in told["decision"]["job"]["reason"]
    assert cluster.wait_job(job, "FAILED")["Restarts"] == "0"
    assert drained(cluster) == {bad}


def test_a_node_that_a_person_drained_stays_theirs(cluster):
    job = scenes.train(cluster)
    scenes.in_step(cluster, job)
    bad = scenes.nodes_of(cluster, job)[1]
    cluster.scontrol("update", f"NodeName={bad}", "State=DRAIN", "Reason=admin: swap PSU")

    cluster.node(bad).xid(79)

    explained(cluster, job)
    cluster.wait_job(job, "COMPLETED", 60.0)
    assert cluster.node_state(bad)[1] == "admin: swap PSU"


def test_a_node_that_a_person_put_back_is_not_taken_out_again_on_the_same_evidence(cluster):
    job = scenes.train(cluster, nodes=1)
    scenes.in_step(cluster, job)
    (bad,) = scenes.nodes_of(cluster, job)
    cluster.node(bad).xid(79)
    cluster.run("scancel", job)
    cluster.wait(lambda: drained(cluster) == {bad}, 20.0, f"{bad} to be drained")

    cluster.scontrol("update", f"NodeName={bad}", "State=RESUME")
    again = scenes.train(cluster, f"--nodelist={bad}", nodes=1, steps=2)

    assert cluster.wait_job(again, "COMPLETED", 30.0)["Restarts"] == "0"
    assert drained(cluster) == set()


@pytest.mark.parametrize("way", ["stderr", "logger", "kmsg"])
def test_a_forged_xid_line_drains_nothing_and_convicts_nobody(cluster, way):
    """Any user can write the driver's words: to a log, to syslog, even into the kernel log, where the facility tells."""
    line = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=x, GPU has fallen off the bus."
    if way == "kmsg":
        cluster.node("node1").kmsg(line, facility=1)
    writer = {"stderr": f"echo '{line}' >&2", "logger": f"logger -p kern.crit '{line}' 2>&1", "kmsg": "true"}[way]
    job = cluster.sbatch(f"sleep 0.3; {writer}; exit 3", "--nodelist=node1", "--no-requeue")

    told = explained(cluster, job)

    assert not labelled(told)[0].startswith("hardware/")
    assert not told["diagnosis"]["confirmed"]
    cluster.wait_job(job, "FAILED")
    assert drained(cluster) == set()


def test_a_job_of_an_ordinary_user_is_read_as_that_user(cluster):
    job = scenes.out_of_memory(cluster, user="nobody")

    told = explained(cluster, job)

    assert told["attempt"]["user"] == "nobody"
    assert labelled(told)[0] == "software/oom"


def test_a_users_link_to_a_file_of_roots_is_not_read(cluster):
    """The log's name is the user's to choose, and root reads on their behalf: what they cannot read stays unread."""
    secret = cluster.layout.folder / "secret"
    secret.write_text("RuntimeError: CUDA out of memory. the secret of root\n")
    secret.chmod(0o600)
    script = f"sleep 0.3; rm -f stolen.out; ln -s {secret} stolen.out; exit 1"
    job = cluster.sbatch(script, "--output=stolen.out", "--no-requeue", user="nobody")

    told = explained(cluster, job)

    assert labelled(told)[0] == "unknown/unknown"
    assert "secret of root" not in str(told)


def test_log_names_are_expanded_as_slurm_expands_them(cluster):
    """Not %N: it is the machine's host name, and here one machine plays all nodes."""
    job = scenes.out_of_memory(cluster, "--output=%x.%u.%t.%5j.log")

    root = explained(cluster, job)["diagnosis"]["chain"][0]

    assert root["evidence"]["file"].endswith(f"/oom.root.0.{int(job):05d}.log")


def test_a_log_that_cannot_be_read_is_named(cluster):
    job = cluster.sbatch("sleep 0.3; rm -f gone.out; exit 1", "--output=gone.out", "--no-requeue")

    told = explained(cluster, job)

    assert labelled(told)[0] == "unknown/unknown"
    assert "gone.out" in told["diagnosis"]["sentence"]


def test_a_job_that_completes_or_is_cancelled_leaves_the_cluster_alone(cluster):
    good = cluster.sbatch("exit 0")
    stopped = scenes.idle(cluster, seconds=60)
    cluster.wait_job(good, "COMPLETED")
    cluster.wait_job(stopped, "RUNNING")

    cluster.run("scancel", stopped)

    told = explained(cluster, stopped)
    assert labelled(told)[0] == "scheduler/cancelled"
    assert not told["decision"]["job"]["requeue"]
    assert cluster.job(stopped)["JobState"] == "CANCELLED"
    assert explain(cluster, good) == []
