"""Budgets, modes, holds, and a controller service that is stopped at the worst moment."""

from __future__ import annotations

import sys

import pytest

from tests.e2e.slurm import scenes
from tests.e2e.slurm.cluster import QUICK_SCHEDULING
from tests.e2e.slurm.story import CALM, FULL, drained, explain, explained, labelled, open_attempts, outcomes, repair

FLAKY = (
    "sleep 0.3; echo 'node1:1:2 [0] NCCL WARN NET/IB : Got completion from peer 10.0.0.7<5> with status=12 opcode=0'"
    " 'len=0 vendor err 129 (Recv)'; exit 1"
)


def config(**policy):
    return {**FULL, "policy": {**FULL["policy"], **policy}}


@pytest.fixture(scope="module")
def running(start_cluster):
    return start_cluster(
        nodes=3,
        config=config(retry_budget=1, backoff_s=1.0, budget={"max_nodes": 1, "max_percent": 100.0}),
        healthcheck_interval=CALM,
        accounting=True,
        # Slurm would hold what a prolog keeps off: the parameter that users need is missing here on purpose.
        conf={"SchedulerParameters": QUICK_SCHEDULING},
    )


@pytest.fixture
def cluster(running):
    yield running
    repair(running)


def test_the_missing_parameter_is_told_at_start_and_what_we_caused_is_released(cluster):
    cluster.wait(lambda: "slurm.conf: " in cluster.controller.tail(400), 15.0, "the service to look at slurm.conf")
    complaints = [line for line in cluster.controller.tail(400).splitlines() if "slurm.conf: " in line]
    assert len(complaints) == 1
    assert "lacks nohold_on_prolog_fail" in complaints[0]
    cluster.node("node1").xid(79)
    cluster.node("node1").wait_verdict("fail")

    job = scenes.train(cluster, nodes=1, steps=2)

    done = cluster.wait_job(job, "COMPLETED", 60.0)
    assert done["NodeList"] != "node1"
    told = explained(cluster, job)
    assert "released from Slurm's own hold" in next(act["note"] for act in told["acts"] if act["kind"] == "release")
    assert cluster.node_state("node1")[1].startswith("wheeltapper: hardware/gpu_xid")


def test_retries_end_and_say_so(cluster):
    job = cluster.sbatch(FLAKY)

    told = explained(cluster, job, attempts=2, timeout=60.0)

    first, second = explain(cluster, job)
    assert first["decision"]["job"]["requeue"]
    assert not second["decision"]["job"]["requeue"]
    assert told["decision"]["job"]["reason"] == "the job has used up its 1 retries"
    done = cluster.wait_job(job, "FAILED")
    assert done["Restarts"] == "1"
    assert "a2 network/transport" in cluster.admin_comment(job)
    assert "not requeued, the job has used up its 1 retries" in cluster.admin_comment(job)


def test_the_budget_keeps_a_second_node_in_service_and_the_jobs_off_it(cluster):
    """One node may be out; the second broken one stays in, and jobs that are sent there are moved away."""
    for name in ("node1", "node2"):
        cluster.node(name).xid(79)
        cluster.node(name).wait_verdict("fail")
    first = scenes.train(cluster, "--nodelist=node1", nodes=1, steps=2)
    cluster.wait(lambda: drained(cluster) == {"node1"}, 20.0, "node1 to be drained")
    cluster.run("scancel", first)

    job = scenes.train(cluster, nodes=1, steps=2)

    done = cluster.wait_job(job, "COMPLETED", 60.0)
    assert done["NodeList"] == "node3"
    assert drained(cluster) == {"node1"}
    assert (
        "the budget forbids it: 1 of 3 nodes of main are out already and the budget is 1"
        in cluster.controller.log.read_text()
    )
    report = cluster.wheeltapper("report").stdout
    assert "node2: wheeltapper: hardware/gpu_xid" in report
    cluster.node("node2").reboot()


def test_a_service_that_is_killed_between_a_jobs_end_and_the_decision_loses_and_repeats_nothing(cluster):
    job = scenes.train(cluster)
    scenes.in_step(cluster, job)
    good, bad = scenes.nodes_of(cluster, job)
    cluster.node(good).agent.pause()
    cluster.node(bad).xid(79)
    cluster.wait(lambda: open_attempts(cluster), 30.0, "the job's end to be known")

    cluster.controller.kill()
    assert explain(cluster, job) == []
    cluster.controller.start()
    cluster.wait(cluster.controller.ready, 15.0, "the controller service to be back")
    cluster.node(good).agent.resume()

    told = explained(cluster, job)
    assert labelled(told)[:2] == ("hardware/gpu_xid", "xid=79")
    assert cluster.wait_job(job, "COMPLETED", 60.0)["Restarts"] == "1"
    assert len(explain(cluster, job)) == 1
    assert open_attempts(cluster) == []


def test_what_ends_while_the_service_is_away_is_decided_when_it_comes_back(cluster):
    cluster.controller.kill()
    job = scenes.out_of_memory(cluster)
    cluster.wait_job(job, "FAILED", 30.0)

    cluster.controller.start()

    told = explained(cluster, job, timeout=40.0)
    assert labelled(told)[0] == "software/oom"
    assert outcomes(told) == {"annotate": "done"}
    assert "software/oom" in cluster.admin_comment(job)


def test_a_failure_domain_has_a_budget_of_its_own(start_cluster):
    """Slurm's leaf switches are failure domains: of a switch with two nodes one may be out, and of the other one too."""
    cluster = start_cluster(nodes=4, config=FULL, healthcheck_interval=1)
    (cluster.layout.folder / "topology.conf").write_text(
        "SwitchName=left Nodes=node[1-2]\nSwitchName=right Nodes=node[3-4]\nSwitchName=top Switches=left,right\n"
    )
    cluster.reconfigure(TopologyPlugin="topology/tree")
    cluster.slurmctld.stop()
    cluster.slurmctld.start()
    cluster.wait(cluster.slurmctld.ready, 15.0, "slurmctld to be back")

    cluster.node("node1").xid(79)
    cluster.wait(lambda: drained(cluster) == {"node1"}, 20.0, "node1 to be drained")
    for name in ("node2", "node3"):
        cluster.node(name).xid(79)
    cluster.wait(lambda: drained(cluster) == {"node1", "node3"}, 20.0, "node3 to be drained")

    refusal = "the budget forbids it: 1 of 2 nodes of domain left are out already and the budget is 1"
    cluster.wait(lambda: refusal in cluster.controller.log.read_text(), 20.0, "node2 to be refused")
    assert drained(cluster) == {"node1", "node3"}


LABEL_A_STRANGER = """
import asyncio, os
from pathlib import Path
from wheeltapper_slurm.scontrol import Scontrol
print(asyncio.run(Scontrol(Path(os.environ["SLURM_CONF"]), 10.0).annotate_finished("999999", "a label")))
"""


def test_a_job_that_slurmdbd_has_not_heard_of_is_no_refusal(cluster):
    """Its record may still come, so this must be told from an error; each release says it in other words."""
    assert cluster.run(sys.executable, "-c", LABEL_A_STRANGER).stdout == "False\n"


@pytest.fixture(scope="module")
def observing(start_cluster):
    return start_cluster(nodes=2, config={**FULL, "policy": {"mode": "observe"}}, healthcheck_interval=2)


def test_observe_mode_records_what_it_would_have_done_and_changes_nothing(observing):
    """Without slurmdbd, a finished job cannot be labelled either: that is written down, and the ledger has the label."""
    job = scenes.train(observing)
    scenes.in_step(observing, job)
    bad = scenes.nodes_of(observing, job)[1]

    observing.node(bad).xid(79)

    told = explained(observing, job)
    assert labelled(told)[:2] == ("hardware/gpu_xid", "xid=79")
    assert outcomes(told) == {"annotate": "failed", "requeue": "observed", "exclude": "observed", "start": "observed"}
    assert "slurmdbd" in next(act["note"] for act in told["acts"] if act["kind"] == "annotate")
    assert observing.wait_job(job, "FAILED")["Restarts"] == "0"
    after = scenes.train(observing, f"--nodelist={bad}", nodes=1, steps=1)
    observing.wait_job(after, "COMPLETED", 30.0)
    assert drained(observing) == set()
    assert f"{bad}: wheeltapper: hardware/gpu_xid xid=79" in observing.wheeltapper("report").stdout


def test_a_health_check_takes_out_an_idle_broken_node(start_cluster):
    cluster = start_cluster(nodes=1, config=FULL, healthcheck_interval=1)

    cluster.node("node1").xid(79)

    cluster.wait(lambda: drained(cluster) == {"node1"}, 20.0, "the health check to drain node1")
    assert cluster.node_state("node1")[1].startswith("wheeltapper: hardware/gpu_xid xid=79 gpu=0000:3b:00 at=")


def test_a_gpu_that_pci_no_longer_shows_takes_the_node_out(start_cluster):
    """A node that lost a GPU must not look like a smaller healthy node: PCI and the manifest are asked."""
    cluster = start_cluster(nodes=1, config=FULL, healthcheck_interval=1)

    cluster.node("node1").lose_gpu("0000:86:00")

    cluster.wait(lambda: drained(cluster) == {"node1"}, 40.0, "the health check to drain node1")
    assert cluster.node_state("node1")[1].startswith("wheeltapper: hardware/gpu_lost")
    assert "gpu=0000:86:00" in cluster.node_state("node1")[1]
