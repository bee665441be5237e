"""A node that we took out comes back by itself when what broke is mended, and only then."""

from __future__ import annotations

import pytest

from tests.e2e.slurm.cluster import Hooks
from tests.e2e.slurm.story import CALM, FULL, drained, explained
from tests.e2e.slurm.test_limits import FLAKY

SOON = {
    "policy": {**FULL["policy"], "release": {"hold_s": 1.0, "repeat_quarantines": 2}, "probation_max_nodes": 1},
    "agent": {"health_interval_s": 1.0},
}


@pytest.fixture(scope="module")
def cluster(start_cluster):
    return start_cluster(nodes=5, config=SOON, healthcheck_interval=CALM)


def taken_out(cluster, name):
    """Let the node's health check run once its fault is known, wait until the node is out, and return the reason.

    By hand: slurmctld's own rounds would meet nodes in the middle of their reboot, and not talk to them for a while.
    """
    cluster.node(name).wait_verdict("fail")
    cluster.node(name).run(str(Hooks().healthcheck), check=False)
    cluster.wait(lambda: name in drained(cluster), 20.0, f"{name} to be drained")
    reason = cluster.node_state(name)[1]
    assert reason.startswith("wheeltapper: ")
    return reason


def back(cluster, name):
    """Wait until it is in service. Its reason may still be there: 24.11 keeps it until a job starts on the node."""
    cluster.wait(lambda: cluster.node_state(name)[0] == {"IDLE"}, 30.0, f"{name} to be back at work")


def says(cluster, sentence):
    """Wait until the controller service has said it."""
    cluster.wait(lambda: sentence in cluster.controller.log.read_text(), 20.0, f"the service to say {sentence!r}")


def test_a_failing_check_keeps_a_node_from_jobs_until_it_is_mended_and_passes_again(cluster):
    node = cluster.node("node1")
    node.lose_gpu("0000:86:00")
    reason = taken_out(cluster, "node1")
    assert "hardware/gpu_lost" in reason
    job = cluster.sbatch("true", "--nodelist=node1")

    assert node.run("cat", "/run/wheeltapper/verdict").stdout.startswith("fail ")
    node.files.add_gpu("0000:86:00")
    node.wait_verdict("ok")
    says(cluster, "node1 is out for hardware/gpu_lost: it was not rebooted yet")
    assert cluster.job(job)["JobState"] == "PENDING"
    assert cluster.node_state("node1")[1] == reason

    node.reboot()
    back(cluster, "node1")
    cluster.wait_job(job, "COMPLETED", 30.0)
    assert "released: its checks pass again" in cluster.wheeltapper("report").stdout


def test_a_gpu_that_is_well_after_a_reset_needs_no_reboot_and_large_jobs_that_run_again_avoid_its_node(cluster):
    node = cluster.node("node2")
    node.xid(48)
    assert taken_out(cluster, "node2").endswith(": reset the GPU")
    broken = cluster.layout.work / "link-is-down"
    job = cluster.sbatch(f"while [ ! -e {broken} ]; do sleep 0.1; done; {FLAKY}", "--nodes=2")
    cluster.wait_job(job, "RUNNING")

    node.xid(154, text="GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)")

    back(cluster, "node2")
    broken.touch()
    (avoid,) = (act for act in explained(cluster, job)["acts"] if act["kind"] == "avoid")
    assert (avoid["outcome"], avoid["value"].split(",")[0]) == ("done", "node2")
    excluded = cluster.run("scontrol", "show", "hostnames", cluster.job(job)["ExcNodeList"]).stdout.split()
    assert "node2" in excluded
    assert len(cluster.nodes) - len(excluded) >= 2
    cluster.run("scancel", job)


def test_a_node_whose_reason_a_person_changed_stays_theirs_whatever_its_checks_say(cluster):
    for name in ("node3", "node4"):
        cluster.node(name).xid(79)
    theirs = taken_out(cluster, "node3") + " Ann looks at it"
    taken_out(cluster, "node4")
    cluster.scontrol("update", "NodeName=node3", f"Reason={theirs}")

    for name in ("node3", "node4"):
        cluster.node(name).reboot()
        cluster.node(name).wait_verdict("ok")

    back(cluster, "node4")
    says(cluster, "node3 is out for hardware/gpu_xid: it is no longer ours")
    states, reason = cluster.node_state("node3")
    assert ("DRAIN" in states, reason) == (True, theirs)


def test_a_node_that_breaks_again_and_again_waits_for_a_person(cluster):
    node = cluster.node("node5")
    node.xid(79)
    assert taken_out(cluster, "node5").endswith(": reboot")
    node.reboot()
    back(cluster, "node5")

    node.xid(79)
    reason = taken_out(cluster, "node5")
    assert reason.endswith(": reboot; out 2 times in 30 days, a person decides")
    node.reboot()
    node.wait_verdict("ok")

    says(cluster, "node5 is out for hardware/gpu_xid: it was out 2 times in 30 days, a person decides")
    assert cluster.node_state("node5")[1] == reason
    cluster.scontrol("update", "NodeName=node5", "State=RESUME")
    back(cluster, "node5")


def test_a_node_that_is_long_away_for_its_repair_is_still_ours_and_comes_back(start_cluster):
    cluster = start_cluster(nodes=1, config=SOON, healthcheck_interval=CALM, conf={"SlurmdTimeout": "5"})
    node = cluster.node("node1")
    node.xid(79)
    reason = taken_out(cluster, "node1")

    node.slurmd.stop()
    cluster.wait(lambda: "DOWN" in cluster.node_state("node1")[0], 60.0, "slurmctld to give node1 up")
    adds = "" if cluster.release.version == (22, 5) else " : Not responding"
    assert cluster.node_state("node1")[1] == reason + adds

    node.slurmd.start()
    node.reboot()
    back(cluster, "node1")
    assert "released: its checks pass again" in cluster.wheeltapper("report").stdout


def test_where_it_is_wanted_slurm_reboots_the_node_and_it_is_checked_before_it_works_again(start_cluster, tmp_path):
    program = tmp_path / "reboot"
    program.write_text("#!/bin/sh\necho x >>/var/lib/wheeltapper/rebooted\n")
    program.chmod(0o755)
    tmp_path.chmod(0o755)
    config = {**SOON, "policy": {**SOON["policy"], "reboot": True}}
    cluster = start_cluster(nodes=1, config=config, healthcheck_interval=CALM, conf={"RebootProgram": str(program)})
    node = cluster.node("node1")
    there = cluster.layout.work / "there"
    job = cluster.sbatch(f"touch {there}; sleep 3", "--nodelist=node1")
    cluster.wait(there.exists, 20.0, "the job to be past its prolog")

    node.xid(79)

    reason = taken_out(cluster, "node1")
    asked = node.files.lib / "rebooted"
    cluster.wait(asked.exists, 30.0, "Slurm to reboot node1")
    assert cluster.job(job)["JobState"] == "COMPLETED", "the job that ran there was let to its end"
    assert cluster.node_state("node1")[1].startswith(reason), "slurmctld adds that it reboots it"
    node.reboot(on_slurms_behalf=True)
    back(cluster, "node1")
    assert asked.read_text() == "x\n", "once"
