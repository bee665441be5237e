"""The controller service's rounds: what is decided when, and done once; slurmctld is in memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.integration.slurm_desk import ENDED, cluster
from tests.unit.make import BOOT, logged, xid79
from wheeltapper.diagnosis.lessons import Lessons
from wheeltapper.errors import SchedulerDown
from wheeltapper.evidence import Disposition
from wheeltapper.ledger.learned import keep
from wheeltapper.statistics.repetition import Repeated
from wheeltapper.wire import JobStay, Leave, LogReport, Report
from wheeltapper_slurm import gather


def test_an_attempt_is_decided_when_all_its_nodes_and_logs_have_come(desk):
    at = desk()
    at.ended()
    at.round()
    assert at.told() == []

    at.reports(xid79(at=1000.0))
    at.round()

    [told] = at.told()
    assert (told.diagnosis.label, told.diagnosis.confirmed) == ("hardware/gpu_xid", True)
    assert ("requeue", "14") in at.slurm.asked
    assert [asked for asked in at.slurm.asked if asked[0] == "drain"], "the decision drains what the epilog had not"
    assert at.journal.attempts() == at.journal.reports("14") == []
    assert list(at.spool.iterdir()) == []


def test_the_deadline_ends_the_waiting(desk):
    at = desk()
    at.ended()
    at.round()
    at.now = ENDED + 61.0
    at.round()

    assert [told.diagnosis.label for told in at.told()] == ["unknown/unknown"]


def test_what_the_record_has_taught_leads_the_answer_and_drains_nothing(desk):
    at = desk()
    gpu = Repeated("n2", "0000:3b:00", 4, 3, 9, 1024, 1e-7)
    keep(at.ledger, Lessons(repeated={(gpu.node, gpu.gpu): gpu}))
    at.ended()
    at.reports(
        replace(
            xid79(at=1000.0),
            signature="nvidia.xid.31",
            label="software/cuda_fault",
            disposition=Disposition.NONE,
            detail="",
        )
    )
    at.round()

    [told] = at.told()
    assert (told.diagnosis.label, told.diagnosis.rejected[0].label) == ("hardware/gpu_xid", "software/cuda_fault")
    assert "4 different jobs of 3 users" in told.diagnosis.sentence
    assert (told.decision.quarantine, told.decision.job.exclude) == ((), ("n2",))
    assert not [asked for asked in at.slurm.asked if asked[0] == "drain"]


def test_a_silent_slurmctld_loses_nothing(desk):
    at = desk()
    at.slurm.down = True
    at.ended()
    with pytest.raises(SchedulerDown):
        at.round()
    at.reports(logs=[logged("software/oom")])
    at.slurm.down = False
    at.round()

    assert [told.diagnosis.label for told in at.told()] == ["software/oom"]


def test_a_spoiled_file_is_set_aside_and_the_next_one_read(desk):
    at = desk()
    (at.spool / "13.1").write_bytes(b"nonsense")
    at.ended()
    at.reports(logs=[logged("software/oom")])
    at.round()

    assert len(at.told()) == 1
    assert [path.name for path in at.spool.iterdir()] == [".wrong-13.1"]


def test_the_batch_host_is_told_which_logs_to_read_as_whom_and_the_others_are_not(desk):
    at = desk()
    at.ended(SLURM_JOB_STDOUT="%x-%j.out")
    at.round()
    stay = JobStay("14", 901.0, ENDED)

    batch, other = at.hear(Report("n1", BOOT, stay)), at.hear(Report("n2", BOOT, stay))

    assert (batch.read, batch.uid, batch.gid) == (("/home/ada/train me-14.out",), 1000, 100)
    assert other.read == ()


def test_a_job_that_the_prolog_kept_off_is_sent_on_without_the_node(desk):
    at = desk(cluster(state="COMPLETING", exit_code=0))
    answer = at.hear(Leave("n2", BOOT, "prolog", (xid79(),), "14"))
    assert answer.out
    at.ended(SLURM_JOB_EXIT_CODE2="0:0")
    at.reports()
    at.round()
    assert at.told() == []

    at.slurm.jobs["14"] = replace(
        at.slurm.jobs["14"], state="PENDING", priority=0, reason="launch_failed_requeued_held"
    )
    at.now += 1.0
    at.round()

    [told] = at.told()
    assert told.attempt.ending.value == "launch_failed"
    assert told.diagnosis.sentence.startswith("the prolog kept the job off n2 GPU 0000:3b:00")
    assert ("update", "14", "ExcNodeList", "n2") in at.slurm.asked
    assert at.slurm.asked[-2:] == [("release", "14"), ("update", "14", "StartTime", "now+1")]


def test_a_restart_between_decision_and_acts_does_the_acts_once(desk, tmp_path):
    at = desk(cluster(state="COMPLETING"))
    at.ended()
    at.reports(xid79(at=1000.0))
    at.round()
    assert ("requeue", "14") in at.slurm.asked
    assert not [asked for asked in at.slurm.asked if asked[2:3] == ("StartTime",)], "its epilogs still run"

    again = desk(at.slurm)
    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="PENDING")
    again.round()
    again.round()

    assert [asked for asked in at.slurm.asked if asked[0] == "requeue"] == [("requeue", "14")]
    assert [asked for asked in at.slurm.asked if asked[2:3] == ("StartTime",)] == [
        ("update", "14", "StartTime", "now+1")
    ]
    assert len(again.told()) == 1


def test_a_bug_that_one_job_brings_to_light_does_not_stop_the_others(desk, monkeypatch, caplog):
    at = desk()
    at.slurm.jobs["13"] = replace(at.slurm.jobs["14"], id="13")
    at.ended("13.1", SLURM_JOB_ID="13", SLURM_JOB_NODELIST="n1")
    at.journal.receive(Report("n1", BOOT, JobStay("13", 901.0, ENDED)), at.now)
    at.journal.receive(LogReport("n1", JobStay("13", 901.0, ENDED)), at.now)
    at.ended("14.1")
    at.reports(logs=[logged("software/oom")])
    right = gather.ending

    def wrong(gathered, *others):
        if gathered.attempt.ended.id == "13":
            raise ZeroDivisionError
        return right(gathered, *others)

    monkeypatch.setattr(gather, "ending", wrong)
    for _ in range(5):
        at.round()

    assert [told.attempt.job for told in at.told()] == ["14"]
    assert caplog.text.count("please report this as a bug") == 1, "it is tried again later, not in every round"
    monkeypatch.setattr(gather, "ending", right)
    at.now += 60.0
    at.round()
    assert [told.attempt.job for told in at.told()] == ["14", "13"]


def test_a_heterogeneous_job_is_decided_once_under_its_leader_with_what_all_its_parts_say(desk):
    at = desk()
    at.slurm.jobs["15"] = replace(at.slurm.jobs["14"], id="15", het_leader="14")
    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], het_leader="14")
    at.ended("15.1", SLURM_JOB_ID="15", SLURM_HET_JOB_ID="14", SLURM_JOB_NODELIST="n2")
    at.ended("14.1", SLURM_HET_JOB_ID="14", SLURM_JOB_NODELIST="n1", SLURM_HET_JOB_NODELIST="n[1-2]")
    at.round()
    at.journal.receive(Report("n1", BOOT, JobStay("14", 901.0, ENDED)), at.now)
    at.journal.receive(LogReport("n1", JobStay("14", 901.0, ENDED)), at.now)
    at.round()
    assert at.told() == []

    at.journal.receive(Report("n2", BOOT, JobStay("15", 901.0, ENDED), (xid79(at=1000.0),)), at.now)
    at.round()

    [told] = at.told()
    assert (told.attempt.job, told.attempt.nodes, told.attempt.components) == ("14", ("n1", "n2"), ("15",))
    assert told.diagnosis.label == "hardware/gpu_xid"
    assert [asked[:2] for asked in at.slurm.asked if asked[0] == "requeue"] == [("requeue", "14")]
    assert {(act.kind, act.target) for act in at.ledger.acts()} >= {
        ("exclude", "14"), ("exclude", "15"), ("start", "14"), ("start", "15")
    }  # fmt: skip
    assert at.journal.reports("14") == []


def test_a_node_that_was_not_there_has_no_say_about_an_attempt(desk):
    at = desk(cluster(state="FAILED"))
    at.ended()
    stay = JobStay("14", 901.0, ENDED)
    at.journal.receive(Report("n9", BOOT, stay, (xid79("n9"),)), at.now)
    at.journal.receive(LogReport("n9", stay, (logged("software/oom"),)), at.now)
    at.journal.keep_off(Leave("n9", BOOT, "prolog", (xid79("n9"),), "14"), at.now)
    at.reports(logs=[logged("network/link_down")])
    at.round()

    [told] = at.told()
    assert told.diagnosis.label == "network/link_down"
    assert told.attempt.ending.value == "failed"
