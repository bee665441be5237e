"""The contract of the client of slurmctld, on a real one, through both backends.

The pyslurm half is skipped where pyslurm cannot be used, and says why. On a machine with Slurm 25.11 and its headers:
``pip install -e '.[dev,pyslurm]' && pytest tests/e2e/slurm/test_client.py -rs`` runs both.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.slurm.cluster import QUICK_SCHEDULING, Cluster, Hooks
from tests.e2e.slurm.conftest import StartCluster

PATIENCE_S = 20.0
SLEEP = "sleep 600"
SCRIPT = str(Path(__file__).with_name("client_calls.py"))

FIELDS = (
    "x UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=0 Nice=0 JobState=FAILED"
    " Reason=launch_failed_requeued_held Requeue=0 ExitCode=9:0 BatchHost=node9 NumCPUs=1"
)
"""A name that looks like the rest of a record."""

HOSTILE = (
    FIELDS,
    f"x ArrayJobId=1 ArrayTaskId=1 HetJobId=1 {FIELDS}",
    "$(touch /tmp/wheeltapper-was-here); `id` | & > \"'\\ -n --help",
    "x\nJobId=1 JobName=y UserId=root(0) JobState=FAILED Requeue=1 BatchHost=node9",
    "UserId= JobState= JobName=x UserId=",
)


class Client:
    """One backend, asked from inside the cluster."""

    def __init__(self, backend: str, cluster: Cluster) -> None:
        self.backend = backend
        self.cluster = cluster

    def ask(self, *calls: list[str], timeout: float = 10.0):
        """Make the calls one after the other in one process; of a single call, its answer."""
        words = (sys.executable, SCRIPT, self.backend, json.dumps(calls), str(timeout))
        said = self.cluster.run(*words, check=False, timeout=60.0, place=self.cluster.controller_place)
        if said.returncode and "slurm.client is pyslurm, but" in said.stderr:
            pytest.skip(said.stderr.strip().splitlines()[-1])
        assert said.returncode == 0, said.stderr
        answers = json.loads(said.stdout)
        return answers[0] if len(calls) == 1 else answers

    def job(self, job: str):
        return self.ask(["job", job])


@pytest.fixture(scope="module")
def running(start_cluster: StartCluster) -> Cluster:
    conf = {"SchedulerParameters": QUICK_SCHEDULING}
    return start_cluster(nodes=3, hooks=Hooks.none(), agents=False, controller=False, conf=conf, config={})


@pytest.fixture(params=["command", "pyslurm"])
def client(request: pytest.FixtureRequest, running: Cluster) -> Iterator[Client]:
    one = Client(request.param, running)
    if request.param == "pyslurm":
        one.ask(["node", "node1"])  # skips where it cannot be used
    yield one
    running.run("scancel", "--user=root", check=False)
    running.wait(lambda: not running.squeue("--noheader"), PATIENCE_S, "the queue to be empty")
    running.run("scontrol", "update", "NodeName=ALL", "State=RESUME", check=False)
    running.wait(lambda: running.node_state("node1")[0] == {"IDLE"}, PATIENCE_S, "node1 to be idle")


def until(client: Client, job: str, state: str) -> None:
    """Wait until *job*, whatever its name, is in *state*."""
    words = ("--noheader", f"--jobs={job}", "--format=%T")
    client.cluster.wait(lambda: client.cluster.squeue(*words).split() == [state], PATIENCE_S, f"the job to be {state}")


def started(client: Client, *options: str, script: str = SLEEP) -> str:
    job = client.cluster.sbatch(script, *options)
    client.cluster.wait_job(job, "RUNNING")
    return job


def test_a_running_job_is_read(client: Client) -> None:
    read = client.job(started(client, "--nodes=2", "--exclude=node3"))

    assert (read["state"], read["nodes"], read["batch"], read["requeueable"]) == ("RUNNING", 2, True, True)
    assert (read["batch_host"], read["excluded"], read["uid"], read["priority"] > 0) == ("node1", ["node3"], 0, True)
    assert read["start"] > 1_700_000_000


def test_what_slurmctld_does_not_know_is_nothing(client: Client) -> None:
    assert client.ask(["job", "999999"], ["node", "node9"]) == [None, None]


def test_a_jobs_name_cannot_pass_itself_off_as_another_field(client: Client) -> None:
    """The jobs are pending: in them, a batch host could only come from the name."""
    names = {client.cluster.sbatch(SLEEP, f"--job-name={name}", "--begin=now+600"): name for name in HOSTILE}

    for job, read in zip(names, client.ask(*(["job", job] for job in names)), strict=True):
        seen = (read["id"], read["state"], read["array"], read["het_leader"], read["batch_host"], read["exit_code"])
        assert seen == (job, "PENDING", "", "", None, 0), names[job]
        assert (read["requeueable"], read["priority"] > 0) == (True, True), names[job]
    assert not Path("/tmp/wheeltapper-was-here").exists()


def test_a_jobs_name_cannot_turn_an_act_to_another_job(client: Client) -> None:
    bystander = started(client, "--nodelist=node2")
    named = f"x ArrayJobId={bystander} ArrayTaskId=1 HetJobId={bystander} {FIELDS}"
    job = client.cluster.sbatch(SLEEP, f"--job-name={named}", "--nodelist=node1")
    until(client, job, "RUNNING")

    read, none = client.ask(["job", job], ["requeue", job])

    assert (read["id"], read["array"], read["het_leader"], none) == (job, "", "", None)
    until(client, job, "PENDING")
    read = client.job(bystander)
    assert (read["state"], read["restarts"]) == ("RUNNING", 0)


def test_a_drain_is_state_and_reason_and_is_undone(client: Client) -> None:
    reason = "wheeltapper: hardware/gpu_xid xid=79 gpu=0000:3b:00 job=7 at=2026-11-29T12:01:03Z: reboot"
    none, node, nodes = client.ask(["drain", "node1", reason], ["node", "node1"], ["nodes"])

    assert none is None
    assert "DRAIN" in node["states"]
    assert (node["reason"], node["partitions"], node["gpus"]) == (reason, ["main"], 2)
    assert sorted(each["name"] for each in nodes) == ["node1", "node2", "node3"]
    assert node in nodes

    # 24.11 keeps the reason until a job starts there.
    assert "DRAIN" not in client.ask(["resume", "node1"], ["node", "node1"])[-1]["states"]


def test_one_task_of_an_array_is_requeued_alone(client: Client) -> None:
    array = client.cluster.sbatch(SLEEP, "--array=0-2")
    for task in range(3):
        client.cluster.wait_job(f"{array}_{task}", "RUNNING")
    master = client.job(array)
    assert master["id"] == array

    assert client.ask(["requeue", master["array"]]) is None

    until(client, master["array"], "PENDING")
    others = [f"{array}_{task}" for task in range(3) if f"{array}_{task}" != master["array"]]
    seen = [(each["array"], each["state"]) for each in client.ask(*(["job", other] for other in others))]
    assert seen == [(other, "RUNNING") for other in others]


def test_a_job_that_is_ended_has_failed_and_was_not_cancelled(client: Client) -> None:
    """SIGKILL to the whole job would be a cancelled job, which nobody may run again."""
    job = started(client, "--nodes=2", "--comment=grant 4711, wheeltapper=on", script=f"srun {SLEEP}; {SLEEP}")
    assert client.job(job)["comment"] == "grant 4711, wheeltapper=on"
    client.cluster.wait(lambda: client.cluster.squeue("--noheader", "--steps", f"--jobs={job}"), PATIENCE_S, "its step")

    assert client.ask(["end", job]) is None

    client.cluster.wait_job(job, "FAILED")
    read = client.job(job)
    assert (read["state"], read["exit_code"], read["signal"]) == ("FAILED", 0, 9)


def test_a_job_that_is_cancelled_is_not_run_again(client: Client) -> None:
    job = started(client)

    assert client.ask(["cancel", job]) is None

    client.cluster.wait_job(job, "CANCELLED")
    assert client.job(job)["state"] == "CANCELLED"


def test_one_task_of_an_array_is_ended_alone(client: Client) -> None:
    array = client.cluster.sbatch(SLEEP, "--array=0-1")
    for task in range(2):
        client.cluster.wait_job(f"{array}_{task}", "RUNNING")
    master = client.job(array)

    assert client.ask(["end", master["array"]]) is None

    client.cluster.wait_job(master["array"], "FAILED")
    (other,) = {f"{array}_0", f"{array}_1"} - {master["array"]}
    assert client.job(other)["state"] == "RUNNING"


def test_what_slurmctld_refuses_is_no_silence(client: Client) -> None:
    job = started(client, "--no-requeue")

    answer = client.ask(["requeue", job])

    assert answer["raised"] == "SchedulerError"
    assert "disabled" in answer["said"]
    assert client.job(job)["requeueable"] is False


def test_each_property_is_changed_alone(client: Client) -> None:
    odd = "wheeltapper: a1 hardware/gpu_xid; $(id) 'OpType=ALLREDUCE, JobState=FAILED'"
    job = client.cluster.sbatch(SLEEP, "--hold", "--job-name=keeps its name")
    before = client.job(job)

    changes = [["AdminComment", odd], ["ExcNodeList", "node[1-2]"]]
    after = client.ask(*(["update_job", job, *change] for change in changes), ["job", job])[-1]
    assert after == {**before, "admin_comment": odd, "excluded": ["node1", "node2"]}

    cleared = client.ask(["update_job", job, "ExcNodeList", ""], ["job", job])[-1]
    assert cleared == {**before, "admin_comment": odd}


def test_a_held_job_is_released(client: Client) -> None:
    job = client.cluster.sbatch(SLEEP, "--hold")
    assert client.job(job)["priority"] == 0

    assert client.ask(["release", job]) is None

    client.cluster.wait_job(job, "RUNNING")


def test_a_job_that_completes_shows_it(client: Client) -> None:
    job = client.cluster.sbatch("exit 7")
    client.cluster.wait_job(job, "FAILED")

    read = client.job(job)

    assert (read["state"], read["exit_code"], read["signal"]) == ("FAILED", 7, 0)
    assert read["end"] >= read["start"]


def test_the_configuration_names_the_release(client: Client) -> None:
    version = client.ask(["configuration"])["SLURM_VERSION"]

    assert version.startswith(".".join(f"{part:02}" for part in client.cluster.release.version))


def test_a_slurmctld_that_is_away_is_no_refusal(client: Client) -> None:
    client.cluster.slurmctld.stop()
    try:
        words = (sys.executable, SCRIPT, client.backend, json.dumps([["job", "1"], ["drain", "node1", "x"]]), "3")
        said = client.cluster.run(*words, timeout=60.0, place=client.cluster.controller_place)
    finally:
        client.cluster.slurmctld.start()
        client.cluster.wait(client.cluster.slurmctld.ready, PATIENCE_S, "slurmctld to be ready")
    assert [each["raised"] for each in json.loads(said.stdout)] == ["SchedulerDown"] * 2
