"""Our own failure never drains and never delays: jobs start and end as without us, and a log says why."""

from __future__ import annotations

import subprocess
import time

import pytest

from tests.e2e.slurm.story import CALM, FULL, drained

SLACK_S = 9.0
"""Prolog and epilog deadlines together (2 s and 5 s), and two seconds for a busy machine."""


@pytest.fixture
def cluster(start_cluster_here):
    return start_cluster_here


@pytest.fixture(scope="module")
def running(start_cluster):
    config = {**FULL, "agent": {"verdict_valid_s": 1.0}}
    return start_cluster(nodes=1, config=config, healthcheck_interval=CALM)


@pytest.fixture
def start_cluster_here(running):
    """A cluster whose programs all run again after the test."""
    node = running.node("node1")
    yield running
    for daemon in (node.agent, running.controller):
        daemon.resume()
        daemon.stop()
        daemon.start()
        running.wait(daemon.ready, 15.0, f"{daemon.name} to be ready")


def expire(cluster):
    """Wait until the node's verdict can no longer be used, so that the prolog has to ask."""
    written = cluster.node("node1").verdict
    before = written.stat().st_mtime
    cluster.wait(lambda: time.time() > before + 1.5, 5.0, "the verdict to expire")


def job_runs(cluster) -> str:
    """Run a job; return what the hooks have logged since."""
    log = cluster.node("node1").run_dir / "hooks.log"
    before = log.stat().st_size if log.exists() else 0
    began = time.monotonic()
    job = cluster.sbatch("sleep 0.1; exit 0")
    done = cluster.wait_job(job, "COMPLETED", 30.0)
    cluster.wait(lambda: cluster.node_state("node1")[0] == {"IDLE"}, 20.0, "node1 to be idle")
    assert time.monotonic() - began < SLACK_S
    assert done["Restarts"] == "0"
    assert drained(cluster) == set()
    return log.read_text()[before:] if log.exists() else ""


def test_with_the_agent_killed(cluster):
    cluster.node("node1").agent.kill()
    expire(cluster)

    said = job_runs(cluster)

    assert "prolog" in said
    assert "epilog" in said


def test_with_the_agent_hanging(cluster):
    cluster.node("node1").agent.pause()
    expire(cluster)

    said = job_runs(cluster)

    assert "deadline" in said or "in time" in said


def test_with_the_controller_service_killed(cluster):
    cluster.controller.kill()

    job_runs(cluster)

    cluster.wait(lambda: "controller" in cluster.node("node1").agent.tail(200), 10.0, "the agent to say so")


def test_with_the_controller_service_hanging(cluster):
    cluster.controller.pause()

    job_runs(cluster)

    cluster.wait(lambda: "did not answer" in cluster.node("node1").agent.tail(200), 10.0, "the agent to say so")


def test_with_a_broken_configuration(cluster):
    node = cluster.node("node1")
    file = node.files.etc / "wheeltapper.toml"
    right = file.read_text()
    file.write_text("[policy]\nmode = 'fast'\n")
    node.agent.stop()
    node.agent._namespaces  # noqa: B018 - still there
    try:
        refused = node.run("true", check=False)
        assert refused.returncode == 0
        expire(cluster)
        said = job_runs(cluster)
    finally:
        file.write_text(right)

    assert "agent" in said


def test_with_the_disk_full(cluster):
    """Neither verdict nor marker nor log can be written on the node, nor the job's end on the controller."""
    node = cluster.node("node1")
    node.run("mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", "/var/lib/wheeltapper", check=False)

    said = job_runs(cluster)

    assert said == "" or "disk" in said.lower() or "space" in said.lower()


def test_a_prolog_that_cannot_find_python_lets_the_job_run(cluster):
    node = cluster.node("node1")
    hooks = node.files.etc / "hooks.conf"
    hooks.write_text("python=/nowhere/python3\n")
    node.agent.kill()
    expire(cluster)
    try:
        job_runs(cluster)
    finally:
        hooks.unlink()


def test_the_commands_say_clearly_what_is_wrong(cluster):
    done: subprocess.CompletedProcess[str] = cluster.wheeltapper("explain", "999999")
    assert (done.returncode, done.stderr) == (3, "no interruption of job 999999 is recorded\n")

    done = cluster.wheeltapper("report", "--config", "/nowhere.toml")
    assert (done.returncode, done.stderr) == (2, "wheeltapper report: /nowhere.toml does not exist\n")
