"""The controller service's rounds on a spool folder, a journal and a ledger of their own; slurmctld is in memory."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace

import pytest

from tests.unit.make import BOOT, logged, xid79
from tests.unit.slurm.fake import FakeSlurm, job, node
from tests.unit.slurm.test_names import raw
from wheeltapper import config
from wheeltapper.diagnosis.lessons import Lessons
from wheeltapper.errors import SchedulerDown
from wheeltapper.evidence import Disposition
from wheeltapper.ledger.learned import keep
from wheeltapper.ledger.store import Ledger
from wheeltapper.ledger.totals import totals
from wheeltapper.statistics.repetition import Repeated
from wheeltapper.wire import JobStay, Leave, LogReport, Report
from wheeltapper_slurm import gather
from wheeltapper_slurm.arrivals import Arrivals
from wheeltapper_slurm.inbox import Inbox
from wheeltapper_slurm.journal import Journal
from wheeltapper_slurm.parts import Parts
from wheeltapper_slurm.quarantine import Gate
from wheeltapper_slurm.rounds import Rounds

ENDED = 1100.0
PLAIN = {"SLURM_ARRAY_JOB_ID": None, "SLURM_ARRAY_TASK_ID": None}


class Desk:
    """The service without its socket, and with a clock that the test sets."""

    def __init__(self, folder, slurm, mode="full"):
        text = f"[policy]\nmode = '{mode}'\n[controller]\nspool_dir = '{folder}/spool'\n[ledger]\npath = '{folder}/ledger.db'\n"
        settings = config.parse(text)
        self.now = ENDED + 0.5
        self.slurm = slurm
        self.spool = folder / "spool" / "ended"
        self.ledger = Ledger(settings.ledger.path)
        self.journal = Journal(settings.controller.spool_dir / "journal.db")
        gate = Gate(slurm, self.ledger, settings.policy)
        parts = Parts(settings, slurm, self.ledger, self.journal, gate, Arrivals(), lambda: self.now)
        self.rounds, self.inbox = Rounds(parts), Inbox(parts)

    def ended(self, name="14.1", **env):
        path = self.spool / name
        path.write_bytes(raw(**{**PLAIN, **env}))
        os.utime(path, (ENDED, ENDED))

    def hear(self, message):
        return asyncio.run(self.inbox.hear(message))

    def reports(self, *findings, logs=()):
        """Both nodes' accounts, and what the batch host found in the logs."""
        stay = JobStay("14", 901.0, ENDED + 0.2)
        own = {name: tuple(each for each in findings if each.evidence.node == name) for name in ("n1", "n2")}
        for name, found in own.items():
            self.journal.receive(Report(name, BOOT, stay, found), self.now)
        self.journal.receive(LogReport("n1", stay, tuple(logs)), self.now)

    def round(self):
        asyncio.run(self.rounds.once())

    def told(self):
        return list(self.ledger.interruptions())

    def close(self):
        self.ledger.close()
        self.journal.close()


def cluster(**changes):
    """Two nodes, and job 14 that failed on both."""
    return FakeSlurm(node("n1"), node("n2"), jobs=(job(id="14", **changes),))


@pytest.fixture
def desk(tmp_path):
    desks = []

    def make(slurm=None, mode="full"):
        desks.append(Desk(tmp_path, slurm or cluster(), mode))
        return desks[-1]

    yield make
    for each in desks:
        each.close()


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


def test_the_same_end_told_twice_is_decided_once(desk):
    """slurmctld runs EpilogSlurmctld again after a restart."""
    at = desk()
    at.ended("14.1")
    at.ended("14.2")
    at.reports(logs=[logged("software/oom")])
    at.round()
    at.ended("14.3")
    at.now += 100.0
    at.round()

    assert len(at.told()) == 1
    assert list(at.spool.iterdir()) == []


def test_an_end_told_again_when_the_job_has_gone_on_is_no_new_interruption(desk):
    """By then slurmctld shows the next attempt's start, and no report belongs to this end."""
    at = desk(cluster(state="PENDING", start=ENDED + 120.0))
    at.ended()
    at.round()
    at.now += 100.0
    at.round()

    assert at.told() == []
    assert at.journal.attempts() == []


def test_the_deadline_ends_the_waiting(desk):
    at = desk()
    at.ended()
    at.round()
    at.now = ENDED + 61.0
    at.round()

    assert [told.diagnosis.label for told in at.told()] == ["unknown/unknown"]


def test_a_node_that_slurmctld_has_given_up_is_not_waited_for(desk):
    slurm = FakeSlurm(
        node("n1"), node("n2", ("DOWN", "NOT_RESPONDING")), jobs=(job(id="14", state="PENDING", exit_code=0),)
    )
    at = desk(slurm)
    at.ended(SLURM_JOB_EXIT_CODE2="0:0")
    at.journal.receive(Report("n1", BOOT, JobStay("14", 901.0, ENDED)), at.now)
    at.journal.receive(LogReport("n1", JobStay("14", 901.0, ENDED)), at.now)
    at.round()
    assert at.told() == []

    at.now = ENDED + 3.0
    at.round()

    [told] = at.told()
    assert told.attempt.ending.value == "node_fail"
    assert told.diagnosis.label == "hardware/node_down"
    assert told.attempt.scheduler_requeued
    assert not told.decision.job.requeue
    assert not [asked for asked in slurm.asked if asked[0] == "requeue"], "Slurm has done it already"


def test_exit_code_0_waits_until_slurm_says_how_it_ended(desk):
    at = desk(cluster(state="COMPLETING", exit_code=0))
    at.ended(SLURM_JOB_EXIT_CODE2="0:0")
    at.reports()
    at.round()
    assert at.told() == []

    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="TIMEOUT")
    at.now += 1.0
    at.round()

    assert [told.diagnosis.label for told in at.told()] == ["scheduler/time_limit"]


def test_a_job_that_completed_is_no_interruption_and_counts_as_a_run(desk):
    at = desk(cluster(state="COMPLETED", exit_code=0))
    at.ended(SLURM_JOB_EXIT_CODE2="0:0")
    at.reports()
    at.round()

    assert at.told() == []
    assert at.journal.attempts() == []
    assert [each.runs for each in totals(at.ledger, 0.0, 1e12).exposures] == [1]


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
    assert at.slurm.asked[-2:] == [("release", "14"), ("update", "14", "StartTime", "now")]


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
    assert [asked for asked in at.slurm.asked if asked[2:3] == ("StartTime",)] == [("update", "14", "StartTime", "now")]
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
