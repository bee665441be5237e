from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheeltapper_slurm import records

# As 22.05.8 prints them, recorded on a private cluster; shortened in the middle where nothing is read.
COMPLETING = (
    "JobId=1 ArrayJobId=1 ArrayTaskId=2 JobName=j.sh UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901759"
    " Nice=0 Account=(null) QOS=(null) JobState=COMPLETING Reason=NonZeroExitCode Dependency=(null) Requeue=1 Restarts=0"
    " BatchFlag=1 Reboot=0 ExitCode=7:0 RunTime=00:00:00 TimeLimit=365-00:00:00 TimeMin=N/A"
    " SubmitTime=2026-11-29T21:54:33 EligibleTime=2026-11-29T21:54:33 StartTime=2026-11-29T21:54:34"
    " EndTime=2026-11-29T21:54:34 Deadline=N/A Scheduler=Backfill Partition=main ReqNodeList=(null)"
    " ExcNodeList=n[3-4] NodeList= BatchHost=n2 NumNodes=1 NumCPUs=1 Command=/x/j.sh WorkDir=/x AdminComment=mine a=b OpType=ALLREDUCE, x"
    " StdErr=/x/j.sh-1-1_2.out StdIn=/dev/null StdOut=/x/j.sh-1-1_2.out Power= "
)
NODE = (
    "NodeName=n1 Arch=x86_64 CoresPerSocket=1  CPUAlloc=0 Gres=gpu:2 NodeAddr=127.0.0.1 NodeHostName=localhost"
    " OS=Linux 6.18.44 #1 SMP PREEMPT_DYNAMIC @0  RealMemory=1 State=IDLE+DRAIN ThreadsPerCore=1 Owner=N/A"
    " Partitions=main,big  BootTime=2026-11-29T21:47:22 AveWatts=0 ExtSensorsTemp=n/s"
    " Reason=admin: swap PSU [root@2026-11-29T21:54:35]"
)


def test_a_job_that_completes_is_read_whole():
    job = records.job(COMPLETING)

    assert (job.id, job.state, job.exit_code, job.signal) == ("1", "COMPLETING", 7, 0)
    assert job.completing
    assert not job.waiting
    assert (job.batch, job.requeueable, job.batch_host, job.excluded) == (True, True, "n2", ("n3", "n4"))
    assert job.admin_comment == "mine a=b OpType=ALLREDUCE, x"
    assert job.start == job.end is not None


@pytest.mark.parametrize(
    "name",
    [
        "x UserId=root(0) JobState=FAILED Requeue=0 BatchFlag=0 StartTime=1999-01-01T00:00:00",
        "a b",
        "JobState=CANCELLED",
        "",
    ],
)
def test_a_job_name_cannot_pass_itself_off_as_another_field(name):
    line = COMPLETING.replace("JobName=j.sh", f"JobName={name}")

    job = records.job(line, name)

    assert (job.state, job.requeueable, job.batch, job.start) == (
        "COMPLETING",
        True,
        True,
        records.job(COMPLETING).start,
    )


@pytest.mark.parametrize("key", ["Comment", "SubmitLine", "WorkDir", "Network"])
def test_a_pending_job_gets_no_batch_host_from_its_user(key):
    """A key that Slurm leaves out must not be found in what it prints later."""
    line = COMPLETING.replace(" BatchHost=n2", "").replace("Command=", f"{key}=x BatchHost=evil Command=")

    assert records.job(line).batch_host is None


def test_a_label_is_not_read_from_the_command_line_of_sbatch():
    """26.05 prints the command line before the label."""
    line = COMPLETING.replace("WorkDir=", "SubmitLine=sbatch --wrap scontrol update AdminComment=its own WorkDir=")

    assert records.job(line).admin_comment == "mine a=b OpType=ALLREDUCE, x"
    assert records.job(line.replace(" AdminComment=mine a=b OpType=ALLREDUCE, x", "")).admin_comment == ""


@pytest.mark.parametrize(
    ("gres", "gpus"),
    [("gpu:2", 2), ("gpu:h100:8(S:0-1)", 8), ("nic:1,gpu:a100:4(S:0),gpu:a30:2", 6), ("(null)", 0), ("shard:gpu:9", 0)],
)
def test_how_many_gpus_a_node_has_is_read(gres, gpus):
    assert records.node(NODE.replace("Gres=gpu:2", f"Gres={gres}")).gpus == gpus


@pytest.mark.parametrize("label", ["", " AdminComment=wheeltapper: a1 hardware/gpu_xid 'Comment=wheeltapper=on'"])
def test_the_users_comment_is_told_from_our_own(label):
    line = COMPLETING.replace(
        " AdminComment=mine a=b OpType=ALLREDUCE, x", f"{label}  Comment=grant 4711, wheeltapper=off"
    )

    assert records.job(line).comment == "grant 4711, wheeltapper=off"
    assert records.job(COMPLETING).comment == ""


def test_a_held_job_is_told_from_one_that_waits():
    line = COMPLETING.replace("JobState=COMPLETING", "JobState=PENDING")

    assert not records.job(line).held
    assert records.job(line.replace("Priority=4294901759", "Priority=0")).held


def test_a_node_is_read_with_the_reason_and_without_who_set_it():
    node = records.node(NODE)

    assert (node.name, node.states, node.reason) == ("n1", {"IDLE", "DRAIN"}, "admin: swap PSU")
    assert node.partitions == ("main", "big")
    assert (node.out, node.drained, node.silent) == (True, True, False)


@pytest.mark.parametrize(
    ("state", "out", "drained", "silent"),
    [
        ("IDLE", False, False, False),
        ("MIXED", False, False, False),
        ("ALLOCATED+DRAIN", True, True, False),
        ("DOWN*", True, False, True),
        ("DOWN+NOT_RESPONDING", True, False, True),
        ("IDLE*", False, False, True),
        ("MIXED+DRAIN+COMPLETING", True, True, False),
        ("DOWN+DRAIN", True, True, True),
        ("IDLE+PLANNED", False, False, False),
    ],
)
def test_node_states(state, out, drained, silent):
    node = records.node(NODE.replace("State=IDLE+DRAIN", f"State={state}"))

    assert (node.out, node.drained, node.silent) == (out, drained, silent)


@given(st.text(max_size=300))
def test_any_text_is_a_record_or_a_clear_error(text):
    for read in (records.job, records.node):
        try:
            read(text)
        except ValueError as error:
            assert str(error)  # noqa: PT017 - either outcome is right, silence is not


@pytest.mark.parametrize(
    "added",
    [
        "",
        " : reboot issued",
        " : reboot issued : reboot complete",
        " : Not responding",
        " : Not responding : reboot issued",
    ],
)
def test_what_slurmctld_adds_to_a_reason_while_a_node_is_away_is_not_part_of_it(added):
    line = f"NodeName=n1 State=IDLE+DRAIN+REBOOT_ISSUED Partitions=main Reason=wheeltapper: x: reboot{added} [root@2026-11-29T12:00:00]"

    made = records.node(line)

    assert made.reason == "wheeltapper: x: reboot"
    assert made.rebooting


def job_line(**pairs):
    values = {"JobId": "14", "JobName": "x", "UserId": "ada(1)", "JobState": "RUNNING", **pairs}
    return " ".join(f"{key}={value}" for key, value in values.items())


def test_actions_name_a_task_by_its_array_and_a_component_by_its_leader():
    assert records.job(job_line()).target == "14"
    assert records.job(job_line(ArrayJobId="12", ArrayTaskId="3")).target == "12_3"
    assert records.job(job_line(ArrayJobId="12", ArrayTaskId="3-9%2")).target == "14", "tasks that have not started"
    assert records.job(job_line(HetJobId="13", HetJobOffset="1")).target == "13"


def test_of_all_tasks_of_an_array_the_one_that_was_asked_for_is_taken():
    tasks = [job_line(JobId=number, ArrayJobId="12", ArrayTaskId=task) for number, task in (("14", 3), ("12", 1))]

    assert records.job(records.pick("\n".join(tasks), "12") or "").target == "12_1"
    assert records.job(records.pick(tasks[0], "12_3") or "").id == "14"
    assert records.pick("slurm_load_jobs error", "12") is None


@pytest.mark.parametrize(
    ("state", "shown", "waiting", "active"),
    [
        ("SUSPENDED", "SUSPENDED", False, True),
        ("PENDING", "PENDING", True, False),
        ("EXPEDITING", "EXPEDITING", True, False),
        ("REQUEUE_HOLD", "REQUEUE_HOLD", True, False),
        ("SPECIAL_EXIT", "SPECIAL_EXIT", True, False),
        ("FAILED,COMPLETING", "COMPLETING", False, False),
        ("PENDING+COMPLETING", "COMPLETING", False, False),
    ],
)
def test_states(state, shown, waiting, active):
    record = records.job(job_line(JobState=state))

    assert (record.state, record.waiting, record.active) == (shown, waiting, active)


def test_expedited_requeue_is_known_by_its_state_or_by_the_jobs_own_wish():
    assert records.job(job_line(JobState="COMPLETING,EXPEDITING")).expedited
    assert records.job(f"{job_line()} ExpeditedRequeue=Yes").expedited
    assert not records.job(job_line(Requeue="1")).expedited
