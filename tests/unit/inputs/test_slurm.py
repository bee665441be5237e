"""Slurm's records as files: sacct, scontrol, and slurmctld's own log."""

from __future__ import annotations

import pytest

from tests.unit.inputs.given import labels, moment, of, told
from wheeltapper.attempt import Ending
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.evidence import Role

SACCT = """JobID           JobName      State ExitCode      NodeList               Start                 End
------------ ---------- ---------- -------- ------------- ------------------- -------------------
912004           clm-20 {state:>10}      {code}     rk[04-08] 2025-09-02T13:02:31 2025-09-02T14:35:11
912004.batch      batch  CANCELLED     0:15          rk04 2025-09-02T13:02:31 2025-09-02T14:35:13
912004.exte+     extern  COMPLETED      0:0     rk[04-08] 2025-09-02T13:02:31 2025-09-02T14:35:13
"""


@pytest.mark.parametrize(
    ("state", "label", "ending"),
    [
        ("TIMEOUT", "scheduler/time_limit", Ending.TIME_LIMIT),
        ("CANCELLED", "scheduler/cancelled", Ending.CANCELLED),
        ("CANCELLED+", "scheduler/cancelled", Ending.CANCELLED),
        ("PREEMPTED", "scheduler/preempted", Ending.PREEMPTED),
        ("NODE_FAIL", "hardware/node_down", Ending.NODE_FAIL),
        ("OUT_OF_ME+", "resource/host_oom", Ending.OUT_OF_MEMORY),
    ],
)
def test_the_jobs_own_row_counts_and_its_steps_do_not(state, label, ending):
    found = of({"sacct.txt": SACCT.format(state=state, code="0:0")})
    assert told(found) == [(label, None, "sacct.txt", 3)]
    assert found.attempt is not None
    assert (found.attempt.job, found.attempt.ending) == ("912004", ending)
    assert found.attempt.nodes == ("rk04", "rk05", "rk06", "rk07", "rk08")


def test_that_a_job_failed_is_a_symptom_and_a_running_one_has_not_ended():
    found = of({"sacct.txt": SACCT.format(state="FAILED", code="1:0")})
    assert [(each.label, each.role.value) for each in found.findings] == [("unknown/unknown", "symptom")]
    assert found.attempt is not None
    assert (found.attempt.ending, found.attempt.exit_code) == (Ending.FAILED, 1)
    assert of({"sacct.txt": SACCT.format(state="RUNNING", code="0:0")}).attempt is None


def test_the_parsable_form_with_the_person_who_cancelled():
    text = "JobID|JobName|State|ExitCode|NodeList\n5120|x|CANCELLED by 1000|0:0|n[1-2]\n5120.batch|batch|CANCELLED|0:15|n1\n"
    found = of({"sacct.txt": text})
    assert labels(found) == ["scheduler/cancelled"]
    assert found.attempt is not None
    assert found.attempt.nodes == ("n1", "n2")


def test_of_several_attempts_the_last_that_ended_is_asked_about():
    text = (
        "JobID|State|ExitCode|FailedNode|NodeList\n"
        "77|PREEMPTED|0:0||n[1-2]\n77|NODE_FAIL|0:1|n2|n[1-2]\n77|RUNNING|0:0||n[1,3]\n"
    )
    found = of({"sacct.txt": text})
    assert found.attempt is not None
    assert (found.attempt.ending, found.attempt.failed_node) == (Ending.NODE_FAIL, "n2")


def test_the_log_among_the_files_says_which_job_is_meant():
    text = "JobID|State|ExitCode|NodeList\n76|TIMEOUT|0:0|n1\n77|CANCELLED|0:0|n1\n"
    found = of({"sacct.txt": text, "slurm-76.out": "step 1\n"})
    assert labels(found) == ["scheduler/time_limit"]


def test_times_count_only_where_they_name_their_offset():
    text = "JobID|State|ExitCode|Start|End\n76|TIMEOUT|0:0|2025-09-02T13:02:31{0}|2025-09-02T14:35:11{0}\n"
    vague, exact = of({"sacct.txt": text.format("")}).attempt, of({"sacct.txt": text.format("+02:00")}).attempt
    assert vague is not None
    assert exact is not None
    assert (vague.start, vague.end) == (None, None)
    assert (exact.start, exact.end) == (moment("2025-09-02T11:02:31"), moment("2025-09-02T12:35:11"))


JOB = """JobId=58213 JobName=sft mix
   UserId=u1(9031) GroupId=ext(910) MCS_label=N/A
   JobState={state} Reason={reason} FailedNode=a5 Dependency=(null)
   Requeue=0 Restarts=0 BatchFlag=1 Reboot=0 ExitCode=0:15
   NodeList=a[3,5]
   BatchHost=a3
   StdErr=/home/u1/slurm-58213.out
   StdOut=/home/u1/slurm-58213.out
"""


def test_a_job_record_is_an_attempt():
    found = of({"job.txt": JOB.format(state="NODE_FAIL", reason="NodeDown")})
    attempt = found.attempt
    assert attempt is not None
    assert (attempt.job, attempt.nodes, attempt.failed_node, attempt.batch_host) == ("58213", ("a3", "a5"), "a5", "a3")
    assert (attempt.name, attempt.requeueable, attempt.logs) == ("sft mix", False, ("/home/u1/slurm-58213.out",))
    assert told(found) == [("hardware/node_down", "a5", "job.txt", 3)]


def test_a_limit_of_the_account_explains_more_than_the_state():
    assert labels(of({"job.txt": JOB.format(state="TIMEOUT", reason="AssocGrpGRESMinutes")})) == ["scheduler/quota"]


def test_in_slurmctlds_log_only_this_job_counts():
    log = (
        "[2026-06-18T13:51:30.820] Time limit exhausted for JobId=58170\n"
        "[2026-06-18T13:59:24.301] JobId=58213 timed out, the job is at or exceeds assoc 318(nlp/(null)/(null)) "
        "group max tres(gres/gpu) minutes of 480000 with 480003\n"
    )
    found = of({"job.txt": JOB.format(state="TIMEOUT", reason="TimeLimit"), "controller.log": log})
    assert told(found)[1:] == [("scheduler/quota", None, "controller.log", 2)]


NODE = "NodeName=rk12 Arch=x86_64 CoresPerSocket=32 \n   State={state} ThreadsPerCore=1\n   Reason={reason} [root@2026-09-01T06:00:01]\n"


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("DOWN*+NOT_RESPONDING", ["hardware/node_down"]),
        ("IDLE*", ["hardware/node_down"]),
        ("DOWN+MAINTENANCE+RESERVED", ["scheduler/maintenance"]),
        ("IDLE+DRAIN", []),
        ("MIXED", []),
    ],
)
def test_a_node_record_says_whether_it_is_down_and_whether_on_purpose(state, expected):
    found = of({"node.txt": NODE.format(state=state, reason="rack4 PDU swap")})
    assert labels(found) == expected
    assert [each.evidence.line for each in found.findings] == [3] * len(expected)


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("gres/gpu count reported lower than configured (7 < 8)", [("hardware/gpu_lost", "root")]),
        ("Low RealMemory (reported:983000 < 100.00% of configured:1031000)", [("hardware/host_memory", "root")]),
        ("Kill task failed", [("resource/shared_fs_io", "confirm")]),
        ("a person looks at it", []),
    ],
)
def test_slurms_own_reasons_for_a_node(reason, expected):
    found = of({"node.txt": NODE.format(state="IDLE+DRAIN", reason=reason)})
    assert [(each.label, each.role.value) for each in found.findings] == expected
    assert not any(each.convicts for each in found.findings)


def test_a_planned_window_makes_the_lost_node_its_symptom():
    reservation = (
        "ReservationName=PDU StartTime=2026-09-01T06:00:00 EndTime=2026-09-01T18:00:00 Duration=12:00:00\n"
        "   Nodes=a[5-6] NodeCnt=2 Flags=MAINT,IGNORE_JOBS\n   Users=root State={state} BurstBuffer=(null)\n"
    )
    files = {
        "job.txt": JOB.format(state="NODE_FAIL", reason="NodeDown"),
        "resv.txt": reservation.format(state="ACTIVE"),
    }
    assert {(each.label, each.role.value) for each in of(files).findings} == {
        ("hardware/node_down", "symptom"),
        ("scheduler/maintenance", "root"),
    }
    files["resv.txt"] = reservation.format(state="INACTIVE")
    assert [(each.label, each.role.value) for each in of(files).findings] == [("hardware/node_down", "root")]


@pytest.mark.parametrize(("uid", "label"), [("0", "scheduler/maintenance"), ("1000", "scheduler/cancelled")])
def test_root_who_cancels_on_a_node_under_maintenance_made_room_and_a_user_did_not(uid, label):
    found = of(
        {
            "resv.txt": "ReservationName=PDU StartTime=2026-09-01T06:00:00 EndTime=2026-09-01T18:00:00\n"
            "   Nodes=a[5-6] Flags=MAINT,IGNORE_JOBS\n   Users=root State=ACTIVE\n",
            "sacct.txt": f"JobID|State|ExitCode|NodeList\n77|CANCELLED by {uid}|0:0|a[5-6]\n",
        }
    )
    assert diagnose(found.findings, found.attempt, window_s=1800.0).label == label


def test_nodes_that_no_evidence_names_are_of_another_naming_and_left_out():
    files = {"job.txt": JOB.format(state="FAILED", reason="None"), "n9/memory.events": "oom_kill 1\n"}
    found = of(files)
    assert found.attempt is not None
    assert found.attempt.nodes == ()
    assert [each.evidence.node for each in found.findings if each.role is Role.ROOT] == ["n9"]
