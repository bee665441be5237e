"""Our own failure never drains and never delays: jobs start and end as without us, and a log says why."""

from __future__ import annotations

import time
from contextlib import contextmanager

import pytest

from tests.e2e.slurm import scenes
from tests.e2e.slurm.story import CALM, FULL, drained, explained, labelled

SLACK_S = 12.0
"""Slurm's own second or two, both hooks' last deadlines (5.8 s each at the worst), and a busy machine.

Not a measurement: without the deadlines, a hook that hangs would hold the job for ever.
"""


@pytest.fixture(scope="module")
def running(start_cluster):
    # A verdict that is soon stale makes the prolog ask. The deadline leaves time for an agent that has been waiting for
    # the service: its pauses between tries double from two seconds.
    config = {**FULL, "agent": {"verdict_valid_s": 1.0}, "controller": {"gather_deadline_s": 30.0}}
    return start_cluster(nodes=1, config=config, healthcheck_interval=CALM)


@pytest.fixture
def cluster(running):
    """The module's cluster; all of our programs run again after the test."""
    yield running
    for daemon in (running.node("node1").agent, running.controller):
        daemon.resume()
        daemon.stop()
        daemon.start()
        running.wait(daemon.ready, 15.0, f"{daemon.name} to be ready")


@pytest.fixture
def node(cluster):
    return cluster.node("node1")


def hooks_log(node) -> str:
    log = node.run_dir / "hooks.log"
    return log.read_text() if log.exists() else ""


def expire(cluster) -> None:
    """Wait until the node's verdict is gone or can no longer be used."""
    verdict = cluster.node("node1").verdict

    def stale() -> bool:
        return not verdict.exists() or time.time() - verdict.stat().st_mtime > 1.5

    cluster.wait(stale, 5.0, "the verdict to be stale")


def run_a_job(cluster) -> str:
    """Run a job, hold it to what it would be without us, and return what the hooks have logged meanwhile."""
    node = cluster.node("node1")
    before = len(hooks_log(node))
    began = time.monotonic()
    job = cluster.sbatch("exit 0")
    done = cluster.wait_job(job, "COMPLETED", 30.0)
    assert time.monotonic() - began < SLACK_S
    assert done["Restarts"] == "0"
    assert drained(cluster) == set()
    return hooks_log(node)[before:]


def test_with_the_agent_killed(cluster, node):
    node.agent.kill()
    expire(cluster)

    said = run_a_job(cluster)

    assert "prolog" in said
    assert "epilog" in said
    assert "agent" in said


def test_with_the_agent_hanging(cluster, node):
    """The agent takes the connection and never answers: the client's own deadline ends it."""
    node.agent.pause()
    expire(cluster)

    said = run_a_job(cluster)

    assert "prolog" in said
    assert "epilog" in said


def test_with_the_agent_killed_a_gpu_that_fell_off_the_bus_still_keeps_jobs_off(cluster, node):
    """Fail open on our own faults, closed on positive evidence: the client reads the kernel log itself."""
    node.agent.kill()
    expire(cluster)
    node.xid(79)

    job = scenes.idle(cluster, seconds=0)

    cluster.wait(lambda: drained(cluster) == {"node1"}, 20.0, "node1 to be drained")
    assert cluster.node_state("node1")[1].startswith("wheeltapper: hardware/gpu_xid xid=79 gpu=0000:3b:00")
    cluster.run("scancel", job)
    cluster.wait(lambda: not cluster.squeue("--noheader"), 20.0, "the job to be gone")
    node.reboot()
    cluster.scontrol("update", "NodeName=node1", "State=RESUME")
    idle = {"IDLE"}
    cluster.wait(lambda: cluster.node_state("node1")[0] == idle, 20.0, "node1 to be idle")


def test_with_the_controller_service_killed(cluster, node):
    cluster.controller.kill()

    run_a_job(cluster)

    cluster.wait(lambda: "The controller service gave no answer" in node.agent.tail(200), 15.0, "the agent to say so")


def test_with_the_controller_service_hanging(cluster, node):
    cluster.controller.pause()

    run_a_job(cluster)

    cluster.wait(lambda: "did not answer within" in node.agent.tail(200), 15.0, "the agent to say so")


def test_with_the_controller_service_killed_a_convicted_node_drains_itself(cluster, node):
    cluster.controller.kill()
    job = scenes.train(cluster, "--no-requeue", nodes=1, steps=200)
    scenes.in_step(cluster, job, 0)

    node.xid(79)
    node.wait_verdict("fail")
    cluster.run("scancel", job)

    cluster.wait(lambda: drained(cluster) == {"node1"}, 20.0, "node1 to be drained")
    assert cluster.node_state("node1")[1].startswith(f"wheeltapper: hardware/gpu_xid xid=79 gpu=0000:3b:00 job={job}")
    cluster.controller.start()
    assert labelled(explained(cluster, job, timeout=60.0))[:2] == ("hardware/gpu_xid", "xid=79")
    node.reboot()
    cluster.scontrol("update", "NodeName=node1", "State=RESUME")
    # Who puts a node back within seconds, and then restarts slurmctld, looks like a slurmctld that was killed.
    said = "node1 is out for hardware/gpu_xid: a person put it back to work"
    cluster.wait(lambda: said in cluster.controller.log.read_text(), 60.0, "the service to know that it was put back")
    assert drained(cluster) == set()


@contextmanager
def broken(file):
    right = file.read_text()
    file.write_text("[policy]\nmode = 'fast'\n")
    try:
        yield
    finally:
        file.write_text(right)


def test_with_a_broken_configuration_at_start(cluster, node):
    with broken(node.files.etc / "wheeltapper.toml"), broken(cluster.controller_files.etc / "wheeltapper.toml"):
        for daemon in (node.agent, cluster.controller):
            daemon.stop()
            daemon.start()
            cluster.wait(lambda daemon=daemon: not daemon.running, 15.0, f"{daemon.name} to refuse")
            assert daemon.returncode == 2
            assert "policy.mode: input should be 'observe', 'quarantine' or 'full' (it is 'fast')" in daemon.tail()
        expire(cluster)

        assert "agent" in run_a_job(cluster)


def test_with_a_configuration_that_breaks_while_the_agent_runs(cluster, node):
    with broken(node.files.etc / "wheeltapper.toml"):
        cluster.run("kill", "-HUP", *node.run("pgrep", "-f", "agent run").stdout.split()[:1], check=False)
        cluster.wait(lambda: "policy.mode" in node.agent.tail(), 10.0, "the agent to refuse the new file")

        run_a_job(cluster)

    assert node.agent.running


def start(cluster, daemons, run_dir=None) -> None:
    """Start *daemons* and wait for them; the agent's verdict may be where only the cluster's own processes see it."""
    for daemon in daemons:
        daemon.start()
    for daemon in daemons:
        if run_dir is None or "agent" not in daemon.name:
            cluster.wait(daemon.ready, 20.0, f"{daemon.name} to be ready")
    if run_dir is not None:
        there = ("test", "-e", f"{run_dir}/verdict")
        cluster.wait(lambda: cluster.run(*there, check=False).returncode == 0, 20.0, "the agent to be ready")


@contextmanager
def full_disk(cluster, daemons, folders, run_dir=None):
    """Put a tiny file system over *folders*, let *daemons* start on it, and fill it."""
    for daemon in daemons:
        daemon.stop()
    for folder in folders:
        cluster.run("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder))
    try:
        start(cluster, daemons, run_dir)
        for folder in folders:
            filled = cluster.run("dd", "if=/dev/zero", f"of={folder}/filler", "bs=4k", check=False)
            assert "No space left" in filled.stderr
        yield
    finally:
        for daemon in daemons:
            daemon.stop()
        for folder in folders:
            cluster.run("umount", "--lazy", str(folder))
        start(cluster, daemons)
        idle = {"IDLE"}
        cluster.wait(lambda: cluster.node_state("node1")[0] == idle, 30.0, "node1 to be idle")


def test_with_the_nodes_disk_full(cluster, node):
    """Neither verdict nor marker, finding or report can be written on the node."""
    with full_disk(cluster, [node.agent, node.slurmd], [node.files.run, node.files.lib], node.files.run):
        run_a_job(cluster)
        cluster.wait(lambda: "No space left" in node.agent.tail(400) or "full" in node.agent.tail(400), 15.0, "a word")


def test_with_the_controllers_disk_full(cluster):
    """Neither the end of a job nor a report can be written on the controller."""
    files = cluster.controller_files
    with full_disk(cluster, [cluster.controller, cluster.slurmctld], [files.spool, files.ledger.parent]):
        run_a_job(cluster)
        said = "a message could not be written down, and is not answered: database or disk is full"
        cluster.wait(lambda: said in cluster.controller.tail(400), 15.0, "the service to say so")
        assert "Traceback" not in cluster.controller.tail(400)
        assert cluster.controller.running


def test_without_python_the_job_runs(cluster, node):
    """A prolog that finds no interpreter for its client lets the job run."""
    (node.files.etc / "hooks.conf").write_text("hooks=/nowhere\n")
    node.agent.kill()
    expire(cluster)
    try:
        run_a_job(cluster)
    finally:
        (node.files.etc / "hooks.conf").unlink()


def test_the_commands_say_clearly_what_is_wrong(cluster):
    done = cluster.wheeltapper("explain", "999999")
    assert (done.returncode, done.stderr) == (3, "no interruption of job 999999 is recorded\n")

    done = cluster.wheeltapper("report", "--config", "/nowhere.toml")
    assert (done.returncode, done.stderr) == (2, "wheeltapper report: /nowhere.toml does not exist\n")
