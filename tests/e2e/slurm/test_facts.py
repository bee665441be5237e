"""Facts about Slurm that the design rests on, each on a real cluster. Our own programs are off."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from tests.e2e.slurm.cluster import QUICK_SCHEDULING, Cluster, CommandFailed
from tests.e2e.slurm.cluster.settings import CREDENTIAL_S
from tests.e2e.slurm.conftest import StartCluster
from tests.e2e.slurm.probes import Probes

PATIENCE_S = 20.0
SLEEP = "sleep 60"


@pytest.fixture(scope="module")
def probes(tmp_path_factory: pytest.TempPathFactory) -> Probes:
    return Probes(tmp_path_factory.mktemp("probes"))


@pytest.fixture(scope="module")
def shared_cluster(start_cluster: StartCluster, probes: Probes) -> Cluster:
    return start_cluster(nodes=3, hooks=probes.hooks, agents=False, controller=False)


@pytest.fixture
def cluster(shared_cluster: Cluster, probes: Probes) -> Iterator[Cluster]:
    """The module's cluster with idle nodes, an empty queue and hooks that do nothing.

    A hook that waits in a test waits for the file ``go``, so that none outlives its test.
    """
    yield shared_cluster
    probes.allow("go")
    shared_cluster.run("scancel", "--user=root", check=False)
    shared_cluster.wait(lambda: not shared_cluster.squeue("--noheader"), PATIENCE_S, "the queue to be empty")
    probes.reset()
    shared_cluster.run("scontrol", "update", "NodeName=ALL", "State=RESUME", check=False)
    shared_cluster.wait(lambda: _all_idle(shared_cluster), PATIENCE_S, "all nodes to be idle again")


def _all_idle(cluster: Cluster) -> bool:
    return set(cluster.sinfo("--noheader", "--Node", "--format=%T").split()) == {"idle"}


def _environment(cluster: Cluster, probes: Probes, hook: str) -> dict[str, str]:
    return cluster.wait(lambda: probes.environment(hook), PATIENCE_S, f"{hook} to run")


def _exit_codes(cluster: Cluster, probes: Probes) -> tuple[str, str]:
    environment = _environment(cluster, probes, "epilogslurmctld")
    return environment["SLURM_JOB_EXIT_CODE"], environment["SLURM_JOB_EXIT_CODE2"]


def _requeued(cluster: Cluster, job: str) -> dict[str, str]:
    def again() -> dict[str, str] | None:
        now = cluster.job(job)
        return now if (now["JobState"], now["Restarts"]) == ("PENDING", "1") else None

    return cluster.wait(again, PATIENCE_S, f"job {job} to be pending again")


def test_epilogslurmctld_runs_beside_the_epilogs(cluster: Cluster, probes: Probes) -> None:
    """EpilogSlurmctld and the nodes' epilogs run at the same time: each waits until it sees the other, and both do."""
    probes.set("epilog", 'touch "$SEEN/node"; until_there "$SEEN/controller" 8 && touch "$SEEN/node.met"')
    probes.set(
        "epilogslurmctld", 'touch "$SEEN/controller"; until_there "$SEEN/node" 8 && touch "$SEEN/controller.met"'
    )
    cluster.sbatch("true")
    cluster.wait(lambda: probes.saw("node.met") and probes.saw("controller.met"), PATIENCE_S, "both to meet")


def test_a_slow_epilogslurmctld_holds_the_job_and_not_the_node(cluster: Cluster, probes: Probes) -> None:
    """While one job's EpilogSlurmctld still runs, the next job starts and ends on the same node."""
    probes.set("epilogslurmctld", '[ -e "$SEEN/first" ] || { touch "$SEEN/first"; until_there "$SEEN/go" 20; }')
    first = cluster.sbatch("true", "--nodelist=node1", "--exclusive")
    cluster.wait(lambda: probes.saw("first"), PATIENCE_S, "the first job's EpilogSlurmctld")
    second = cluster.sbatch("true", "--nodelist=node1", "--exclusive")
    cluster.wait_job(second, "COMPLETED")
    assert cluster.job(first)["JobState"] == "COMPLETING"
    probes.allow("go")
    cluster.wait_job(first, "COMPLETED")


@pytest.mark.parametrize("how", ["cancelled", "node failure"])
def test_exit_code_zero_is_no_success(cluster: Cluster, probes: Probes, how: str) -> None:
    """A cancelled job shows exit code 0:0 in EpilogSlurmctld. So does one whose node failed on 22.05; on 24.11 and
    26.05 it shows signal 1, as if somebody had hung up on it.
    """
    probes.record_environment("epilogslurmctld")
    job = cluster.sbatch(SLEEP, "--nodelist=node1")
    cluster.wait_job(job, "RUNNING")
    if how == "cancelled":
        cluster.run("scancel", job)
    else:
        cluster.scontrol("update", "NodeName=node1", "State=DOWN", "Reason=pulled the plug")
    hung_up = how == "node failure" and cluster.release.version >= (24, 11)
    assert _exit_codes(cluster, probes) == (("1", "0:1") if hung_up else ("0", "0:0"))


def test_a_time_limit_shows_only_in_the_jobs_reason(cluster: Cluster, probes: Probes) -> None:
    """A job that ran out of time shows exit code 0:0 too; while it completes, its Reason tells. Slow: Slurm looks
    at time limits twice a minute.
    """
    probes.record_environment("epilogslurmctld")
    probes.set("epilog", 'until_there "$SEEN/go" 20')
    job = cluster.sbatch(SLEEP, "--time=1")
    cluster.wait_job(job, "RUNNING")
    cluster.scontrol("update", f"JobId={job}", "EndTime=now+1")
    completing = cluster.wait_job(job, "COMPLETING", timeout=45)
    assert completing["Reason"] == "TimeLimit"
    assert _exit_codes(cluster, probes) == ("0", "0:0")


def test_a_failing_script_shows_its_exit_code(cluster: Cluster, probes: Probes) -> None:
    """A batch script's own exit code is there, shifted in EXIT_CODE and plain in EXIT_CODE2."""
    probes.record_environment("epilogslurmctld")
    cluster.sbatch("exit 7")
    assert _exit_codes(cluster, probes) == (str(7 << 8), "7:0")


def test_when_a_requeued_job_began_is_told_by_later_releases_alone(cluster: Cluster, probes: Probes) -> None:
    """While a job that was requeued completes, its record shows the second of the requeue as its start."""
    probes.record_environment("epilogslurmctld")
    probes.set("epilog", 'until_there "$SEEN/go" 20')
    job = cluster.sbatch(SLEEP)
    began = datetime.fromisoformat(cluster.wait_job(job, "RUNNING")["StartTime"])
    cluster.wait(lambda: time.time() > began.timestamp() + 3.0, PATIENCE_S, "the job to have run for a while")
    cluster.scontrol("requeue", job)
    told = _environment(cluster, probes, "epilogslurmctld").get("SLURM_JOB_START_TIME")
    assert told == (str(int(began.timestamp())) if cluster.release.version >= (24, 11) else None)
    assert datetime.fromisoformat(cluster.job(job)["StartTime"]) >= began + timedelta(seconds=2)


def _running_array(cluster: Cluster) -> str:
    array = cluster.sbatch(SLEEP, "--array=1-3")
    for task in (1, 2, 3):
        cluster.wait_job(f"{array}_{task}", "RUNNING")
    return array


def _restarts(cluster: Cluster, array: str) -> list[str]:
    return [cluster.job(f"{array}_{task}")["Restarts"] for task in (1, 2, 3)]


def test_requeue_by_the_master_id_kills_healthy_siblings(cluster: Cluster) -> None:
    """One task's job id is the array's id, and `scontrol requeue` of it requeues every task."""
    array = _running_array(cluster)
    own_ids = [cluster.job(f"{array}_{task}")["JobId"] for task in (1, 2, 3)]
    assert own_ids.count(array) == 1
    cluster.scontrol("requeue", array)
    cluster.wait(lambda: _restarts(cluster, array) == ["1", "1", "1"], PATIENCE_S, "all three tasks to be requeued")


def test_requeue_by_array_and_task_touches_one_task(cluster: Cluster) -> None:
    """`scontrol requeue ARRAY_TASK` leaves the siblings running, even for the task that has the array's id."""
    array = _running_array(cluster)
    [task] = [task for task in (1, 2, 3) if cluster.job(f"{array}_{task}")["JobId"] == array]
    cluster.scontrol("requeue", f"{array}_{task}")
    _requeued(cluster, f"{array}_{task}")
    siblings = [cluster.job(f"{array}_{other}") for other in (1, 2, 3) if other != task]
    assert [(sibling["JobState"], sibling["Restarts"]) for sibling in siblings] == [("RUNNING", "0")] * 2


def test_a_reason_without_a_state_drains_nothing_and_may_be_thrown_away(cluster: Cluster) -> None:
    """On a healthy node `Reason=` alone succeeds, and leaves no reason on 22.05 and 26.05. 24.11 keeps it where there
    is no slurmdbd, as here.
    """
    cluster.scontrol("update", "NodeName=node1", "Reason=wheeltapper: only a reason")
    kept = cluster.release.version == (24, 11)
    assert cluster.node_state("node1") == (frozenset({"IDLE"}), "wheeltapper: only a reason" if kept else "")


def test_a_node_that_is_put_back_may_keep_its_reason_until_a_job_starts_there(cluster: Cluster) -> None:
    """On 24.11 without slurmdbd nothing else takes it away, an empty `Reason=` neither. 22.05 and 26.05 do at once."""
    cluster.scontrol("update", "NodeName=node1", "State=DRAIN", "Reason=wheeltapper: it was out")
    cluster.scontrol("update", "NodeName=node1", "State=RESUME", "Reason=")
    kept = cluster.release.version == (24, 11)
    states, reason = cluster.node_state("node1")
    assert ("DRAIN" in states, reason) == (False, "wheeltapper: it was out" if kept else "")
    job = cluster.sbatch("true", "--nodelist=node1")
    cluster.wait_job(job, "COMPLETED")
    assert cluster.node_state("node1")[1] == ""


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
def test_drain_and_reason_in_one_call_survive_a_failing_hook(cluster: Cluster, probes: Probes, hook: str) -> None:
    """`State=DRAIN Reason=…` in one call is not overwritten by the "Prolog error" or "Epilog error" of exit 1."""
    reason = "wheeltapper: hardware/gpu_xid xid=79"
    probes.set(
        hook, f'scontrol update NodeName="$SLURMD_NODENAME" State=DRAIN Reason="{reason}"; touch "$SEEN/ran"; exit 1'
    )
    cluster.sbatch("true", "--nodelist=node1")
    cluster.wait(lambda: probes.saw("ran"), PATIENCE_S, f"the {hook} to fail")
    said = f"{hook.capitalize()} error"
    drained = frozenset({"IDLE", "DRAIN"})
    cluster.wait(lambda: cluster.node_state("node1")[0] == drained, PATIENCE_S, "node1 to be drained")
    assert cluster.node_state("node1")[1] == reason != said


@pytest.mark.parametrize("hook", ["prolog", "epilog"])
def test_a_failing_hook_drains_with_a_generic_reason(cluster: Cluster, probes: Probes, hook: str) -> None:
    """Exit 1 alone drains the node, and nobody learns why."""
    probes.set(hook, "exit 1")
    cluster.sbatch("true", "--nodelist=node1")
    drained = (frozenset({"IDLE", "DRAIN"}), f"{hook.capitalize()} error")
    cluster.wait(lambda: cluster.node_state("node1") == drained, PATIENCE_S, f"the {hook} to drain node1")


@pytest.mark.parametrize("script", ["true", "exit 7"])
def test_admin_comment_is_refused_once_the_job_has_ended(cluster: Cluster, probes: Probes, script: str) -> None:
    """AdminComment is accepted while PENDING and RUNNING, and refused already while COMPLETING."""
    probes.set("epilog", 'touch "$SEEN/epilog"; until_there "$SEEN/go" 20')
    job = cluster.sbatch(f'until [ -e "{probes.seen}/end" ]; do sleep 0.1; done; {script}', "--hold")
    _comment(cluster, job, "pending")
    cluster.scontrol("release", job)
    cluster.wait_job(job, "RUNNING")
    _comment(cluster, job, "running")
    probes.allow("end")
    cluster.wait(lambda: probes.saw("epilog"), PATIENCE_S, "the epilog")
    assert cluster.job(job)["JobState"] == "COMPLETING"
    with pytest.raises(CommandFailed, match="already finished"):
        _comment(cluster, job, "completing")
    assert cluster.job(job)["AdminComment"] == "running"


def test_requeue_from_epilogslurmctld_opens_the_job_again(cluster: Cluster, probes: Probes) -> None:
    """`scontrol requeue` works while a failed job completes; from then on AdminComment and ExcNodeList are accepted."""
    probes.set("epilogslurmctld", 'touch "$SEEN/controller"; until_there "$SEEN/go" 20')
    job = cluster.sbatch("exit 7", "--nodelist=node1")
    cluster.wait(lambda: probes.saw("controller"), PATIENCE_S, "EpilogSlurmctld")
    assert cluster.job(job)["JobState"] == "COMPLETING"
    cluster.scontrol("requeue", job)
    assert cluster.job(job)["JobState"] == "COMPLETING"
    _comment(cluster, job, "while completing")
    cluster.scontrol("update", f"JobId={job}", "ReqNodeList=", "ExcNodeList=node1")
    probes.allow("go")
    pending = _requeued(cluster, job)
    assert (pending["AdminComment"], pending["ExcNodeList"]) == ("while completing", "node1")


def _comment(cluster: Cluster, job: str, text: str) -> None:
    cluster.scontrol("update", f"JobId={job}", f"AdminComment={text}")
    assert cluster.job(job)["AdminComment"] == text


def test_slurmctld_scripts_have_neither_path_nor_slurm_conf(cluster: Cluster, probes: Probes) -> None:
    """EpilogSlurmctld gets no PATH, no HOME and no SLURM_CONF; a node's scripts get SLURM_CONF and still no PATH."""
    for hook in ("prolog", "epilog", "epilogslurmctld"):
        probes.record_environment(hook)
    cluster.sbatch("true")
    assert not {"PATH", "HOME", "SLURM_CONF"} & _environment(cluster, probes, "epilogslurmctld").keys()
    for hook in ("prolog", "epilog"):
        environment = _environment(cluster, probes, hook)
        assert "PATH" not in environment
        assert environment["SLURM_CONF"] == str(cluster.layout.slurm_conf)


def test_no_hook_is_told_the_jobs_state_or_on_the_node_its_name(cluster: Cluster, probes: Probes) -> None:
    """No hook has the job's state; node hooks have neither its name nor its array ids, so cannot expand log patterns."""
    for hook in ("epilog", "epilogslurmctld"):
        probes.record_environment(hook)
    pattern = f"{cluster.layout.work}/%x-%A_%a.out"
    cluster.sbatch("true", "--job-name=train", "--array=5", f"--output={pattern}")
    on_node, on_controller = (_environment(cluster, probes, hook) for hook in ("epilog", "epilogslurmctld"))
    assert on_node["SLURM_JOB_STDOUT"] == on_controller["SLURM_JOB_STDOUT"] == pattern
    assert not [key for key in on_node if key == "SLURM_JOB_NAME" or "ARRAY" in key]
    assert (on_controller["SLURM_JOB_NAME"], on_controller["SLURM_ARRAY_TASK_ID"]) == ("train", "5")
    assert not [key for key in {**on_node, **on_controller} if "STATE" in key]


_REDIRECTED = "</dev/null >/dev/null 2>&1"
_CHILD = 'echo $$ >"$SEEN/child"; until_there "$SEEN/job" 4 && touch "$SEEN/launched"; touch "$SEEN/ended"'


@pytest.mark.parametrize(("redirect", "launched"), [("", False), (_REDIRECTED, True)])
def test_a_child_that_holds_stdout_open_blocks_the_launch(
    cluster: Cluster, probes: Probes, redirect: str, launched: bool
) -> None:
    """A prolog's background child delays the job for as long as it holds stdout; redirected, it does not."""
    probes.set("child", _CHILD)
    probes.set("prolog", f'setsid "{probes.folder}/child" {redirect} & until_there "$SEEN/child" 5')
    cluster.sbatch(f"touch {probes.seen}/job")
    cluster.wait(lambda: probes.saw("ended") and probes.saw("job"), PATIENCE_S, "the child to end and the job to run")
    assert probes.saw("launched") is launched


def test_a_child_in_the_prologs_process_group_dies_with_it(cluster: Cluster, probes: Probes) -> None:
    """slurmd kills the prolog's process group when the prolog has ended: only a child with a session of its own lives."""
    probes.set("child", _CHILD.replace("/job", "/go"))
    probes.set("prolog", f'"{probes.folder}/child" {_REDIRECTED} & until_there "$SEEN/child" 5')
    cluster.sbatch(f"touch {probes.seen}/job")
    cluster.wait(lambda: probes.saw("job"), PATIENCE_S, "the job to run")
    child = (probes.seen / "child").read_text().strip()
    assert cluster.run("kill", "-0", child, check=False).returncode != 0
    assert not probes.saw("ended")


def test_the_restart_count_is_no_attempt_key(cluster: Cluster, probes: Probes) -> None:
    """The first attempt shows restart count 1 to EpilogSlurmctld when its prolog failed, and 0 when it just ended."""
    probes.record_environment("epilogslurmctld")
    cluster.sbatch("true")
    assert _environment(cluster, probes, "epilogslurmctld")["SLURM_JOB_RESTART_COUNT"] == "0"
    probes.reset()
    probes.record_environment("epilogslurmctld")
    probes.set("prolog", "exit 1")
    cluster.sbatch("true", "--nodelist=node1")
    assert _environment(cluster, probes, "epilogslurmctld")["SLURM_JOB_RESTART_COUNT"] == "1"


@pytest.mark.parametrize(("parameter", "held"), [("", True), (",nohold_on_prolog_fail", False)])
def test_a_failed_prolog_holds_the_job_unless_told_otherwise(
    cluster: Cluster, probes: Probes, parameter: str, held: bool
) -> None:
    """Without nohold_on_prolog_fail a job whose prolog failed waits for a person; with it, it only waits its turn."""
    cluster.reconfigure(SchedulerParameters=QUICK_SCHEDULING + parameter)
    probes.set("prolog", "exit 1")
    job = _requeued(cluster, cluster.sbatch("true", "--nodelist=node1"))
    assert (job["Priority"] == "0", job["Reason"] == "launch_failed_requeued_held") == (held, held)


def test_a_requeued_job_waits_for_its_credential_to_expire(cluster: Cluster) -> None:
    """A requeued job may start one second after its old credential's life, or sooner when StartTime says so.

    But not within the second of the requeue: a node takes back whatever credential was issued up to that second.
    """
    job = cluster.sbatch(SLEEP)
    cluster.wait_job(job, "RUNNING")
    before = _now(cluster)
    cluster.scontrol("requeue", job)
    eligible = datetime.fromisoformat(_requeued(cluster, job)["EligibleTime"])
    held = timedelta(seconds=CREDENTIAL_S + 1)
    assert before + held <= eligible <= _now(cluster) + held
    cluster.scontrol("update", f"JobId={job}", "StartTime=now+1")
    running = cluster.wait_job(job, "RUNNING")
    assert datetime.fromisoformat(running["StartTime"]) < eligible


def _now(cluster: Cluster) -> datetime:
    """The time as Slurm prints it: local, in whole seconds."""
    return datetime.fromisoformat(cluster.run("date", "+%Y-%m-%dT%H:%M:%S").stdout.strip())


def test_excnodelist_replaces(cluster: Cluster) -> None:
    """A new ExcNodeList replaces the old one, `+=` is refused, and a job that runs has none to change."""
    job = cluster.sbatch(SLEEP, "--hold", "--exclude=node1")
    cluster.scontrol("update", f"JobId={job}", "ExcNodeList=node2")
    assert cluster.job(job)["ExcNodeList"] == "node2"
    with pytest.raises(CommandFailed):
        cluster.scontrol("update", f"JobId={job}", "ExcNodeList+=node3")
    assert cluster.job(job)["ExcNodeList"] == "node2"
    cluster.scontrol("release", job)
    cluster.wait_job(job, "RUNNING")
    with pytest.raises(CommandFailed, match="no longer pending"):
        cluster.scontrol("update", f"JobId={job}", "ExcNodeList=node1")


def test_a_completing_job_shows_only_the_nodes_whose_epilog_runs(cluster: Cluster, probes: Probes) -> None:
    """While COMPLETING the node list shrinks as epilogs end, down to nothing; only EpilogSlurmctld is told all nodes."""
    probes.set("epilog", '[ "$SLURMD_NODENAME" = node2 ] || until_there "$SEEN/go.epilog" 20')
    probes.set("epilogslurmctld", 'echo "$SLURM_JOB_NODELIST" >"$SEEN/nodes"; until_there "$SEEN/go" 20')
    job = cluster.sbatch("true", "--nodelist=node2,node3", "--nodes=2")

    def shown() -> tuple[str, str, str]:
        now = cluster.job(job)
        return now["JobState"], now["NodeList"], cluster.squeue("--noheader", f"--jobs={job}", "--format=%N").strip()

    cluster.wait(lambda: shown() == ("COMPLETING", "node3", "node3"), PATIENCE_S, "only node3 to be shown")
    probes.allow("go.epilog")
    cluster.wait(lambda: shown() == ("COMPLETING", "", ""), PATIENCE_S, "no node to be shown")
    assert (probes.seen / "nodes").read_text().strip() == "node[2-3]"
    probes.allow("go")
    assert cluster.wait_job(job, "COMPLETED")["NodeList"] == "node[2-3]"
