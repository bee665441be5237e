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
from wheeltapper.ledger.model import Outcome
from wheeltapper.ledger.store import Ledger
from wheeltapper.ledger.totals import totals
from wheeltapper.policy.model import History
from wheeltapper.statistics.repetition import Repeated
from wheeltapper.verdict import State
from wheeltapper.wire import Answer, Health, JobStay, Leave, LogReport, Report
from wheeltapper_slurm import gather
from wheeltapper_slurm.arrivals import Arrivals
from wheeltapper_slurm.healths import Healths
from wheeltapper_slurm.inbox import Inbox
from wheeltapper_slurm.journal import Journal
from wheeltapper_slurm.lasting import Lasting
from wheeltapper_slurm.parts import Parts
from wheeltapper_slurm.quarantine import Gate
from wheeltapper_slurm.records import PastAttempt
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
        lasting = Lasting(slurm, self.journal, lambda: self.now)
        gate = Gate(slurm, self.ledger, settings.policy, lasting, lambda: self.now)
        self.healths = Healths(120.0)
        self.parts = Parts(settings, slurm, self.ledger, self.journal, gate, Arrivals(), self.healths, lambda: self.now)
        self.rounds, self.inbox = Rounds(self.parts), Inbox(self.parts)

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


def test_the_same_end_told_first_without_its_start_and_then_with_it_is_decided_once(desk):
    at = desk()
    record = at.slurm.jobs.pop("14")
    at.ended("14.1")
    at.round()
    at.slurm.jobs["14"] = record
    at.reports(logs=[logged("software/user_code")])
    at.round()
    at.ended("14.2")
    at.round()
    at.now += 100.0
    at.round()

    assert [each.diagnosis.label for each in at.told()] == ["software/user_code"]
    assert ("requeue", "14") not in at.slurm.asked
    assert at.journal.attempts() == []


def test_an_account_that_comes_again_does_not_stand_for_the_next_attempts(desk):
    """A node that was told to ask later reports twice, and an attempt that begins a second later may fail at once."""
    at = desk()
    at.ended()
    at.reports(logs=[logged("network/transport")])
    at.round()
    at.reports(logs=[logged("network/transport")])

    began = ENDED + 1.0
    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="FAILED", start=began)
    path = at.spool / "14.2"
    path.write_bytes(raw(**PLAIN))
    os.utime(path, (began + 1.0, began + 1.0))
    at.now = began + 1.5
    at.round()
    assert len(at.told()) == 1, "the second attempt's own accounts are waited for"

    stay = JobStay("14", began, began + 1.2)
    for name in ("n1", "n2"):
        at.journal.receive(Report(name, BOOT, stay, ()), at.now)
    at.journal.receive(LogReport("n1", stay, (logged("software/oom"),)), at.now)
    at.round()

    assert [each.diagnosis.label for each in at.told()] == ["network/transport", "software/oom"]
    assert at.journal.reports("14") == at.journal.log_reports("14") == []


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


@pytest.mark.parametrize(
    ("books", "labels"),
    [
        pytest.param([PastAttempt("COMPLETED", 900.0, ENDED)], [], id="slurmdbd knows"),
        pytest.param([], ["unknown/unknown"], id="nobody knows"),
    ],
)
def test_a_job_that_goes_on_completing_ended_as_slurmdbd_says(desk, books, labels):
    """A node that died at its job's end keeps it in COMPLETING, on 22.05 without a word of how it ended."""
    at = desk(cluster(state="COMPLETING", exit_code=0))
    at.slurm.books = books
    at.ended(SLURM_JOB_EXIT_CODE2="0:0")
    at.reports()
    at.round()

    at.now += 3600.0
    at.round()

    assert [told.diagnosis.label for told in at.told()] == labels
    assert at.journal.attempts() == []


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


def late(at):
    """Let an attempt be decided without any node's report, and settle what it leads to."""
    at.ended()
    at.round()
    at.now = ENDED + 61.0
    at.round()
    [told] = at.told()
    assert told.diagnosis.label == "unknown/unknown"
    at.slurm.asked.clear()
    at.now += 5.0


def test_a_report_that_comes_after_the_decision_amends_the_record_and_requeues_nothing_twice(desk):
    at = desk()
    late(at)
    assert at.told()[0].decision.job.requeue

    at.reports(xid79(at=1000.0))
    at.round()

    [told] = at.told()
    assert (told.diagnosis.label, told.amended_at) == ("hardware/gpu_xid", at.now)
    assert told.decision.job.reason.startswith("it has run again already; by what is known now: ")
    assert at.ledger.history("14").infrastructure == 1, "the machine pays, not the one try that is given to the unknown"
    assert at.ledger.history("14").blind == 0
    assert [asked for asked in at.slurm.asked if asked[0] == "requeue"] == []
    assert [asked[1] for asked in at.slurm.asked if asked[0] == "drain"] == ["n2"]
    assert at.journal.late("14") == at.journal.reports("14") == []


def test_what_was_not_requeued_is_when_a_late_report_says_that_the_machine_was_to_blame(desk):
    at = desk(cluster(), mode="full")
    at.ledger.history = lambda _job, **_: History(blind=1)
    late(at)
    assert not at.told()[0].decision.job.requeue

    at.reports(xid79(at=1000.0))
    at.round()

    assert at.told()[0].decision.job.requeue
    assert [asked for asked in at.slurm.asked if asked[0] == "requeue"] == [("requeue", "14")]


def test_an_attempt_is_looked_at_again_once(desk):
    at = desk()
    late(at)
    at.reports(logs=[logged("software/oom")])
    at.round()
    assert at.told()[0].diagnosis.label == "software/oom"

    at.now += 5.0
    at.reports(xid79(at=1000.0))
    at.round()

    assert at.told()[0].diagnosis.label == "software/oom"


def test_a_report_on_a_later_attempt_is_no_late_report(desk):
    at = desk()
    late(at)
    at.journal.receive(Report("n1", BOOT, JobStay("14", at.now, at.now + 9.0), (xid79("n1"),)), at.now)
    at.round()

    assert at.told()[0].amended_at is None
    at.now += 5.0
    at.reports(xid79(at=1000.0))
    at.round()
    assert at.told()[0].diagnosis.label == "hardware/gpu_xid"


def test_a_late_batch_host_is_told_which_logs_to_read(desk):
    at = desk()
    late(at)

    answer = at.hear(Report("n1", BOOT, JobStay("14", 901.0, ENDED)))

    assert [path.rpartition("/")[2].partition("-")[0] for path in answer.read] == ["train me"]


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


def moved(at):
    """Let job 14 hang on a GPU that its node proves to be lost, until it is ended and decided on."""
    stay = JobStay("14", 901.0, None, ("0000:3b:00",))
    at.hear(Health("n2", BOOT, State.FAIL, 1.0, (xid79(at=1000.0),), (stay,)))
    at.round()
    at.now += at.parts.config.policy.move_after_s
    at.round()
    assert at.slurm.asked == [("end", "14")]
    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="FAILED", signal=9)
    at.ended(SLURM_JOB_EXIT_CODE2="0:9")
    at.reports(xid79(at=1000.0))
    at.round()


def test_a_job_that_hangs_on_a_broken_node_is_ended_recorded_once_and_sent_on_without_it(desk):
    at = desk(cluster(state="RUNNING", node_list="n[1-2]", end=None))
    moved(at)
    for _ in range(3):
        at.now += 60.0
        at.round()

    [told] = at.told()
    assert (told.diagnosis.label, told.attempt.ending.value) == ("hardware/gpu_xid", "failed")
    assert [kind for kind, *_ in at.slurm.asked if kind in {"end", "requeue"}] == ["end", "requeue"]
    [act] = [act for act in at.ledger.acts() if act.kind == "end"]
    assert (act.outcome, act.note) == (Outcome.DONE, "it still ran on n2 60 s after hardware/gpu_xid was heard of")


def test_an_interactive_job_is_told_and_left_and_no_log_is_waited_for(desk):
    at = desk(cluster(batch=False))
    at.ended()
    for name in ("n1", "n2"):
        at.journal.receive(Report(name, BOOT, JobStay("14", 901.0, ENDED), (xid79(at=1000.0),)), at.now)
    at.round()

    [told] = at.told()
    assert told.diagnosis.label == "hardware/gpu_xid"
    assert told.decision.job.reason == "an interactive job is diagnosed and never requeued"
    assert at.hear(Report("n1", BOOT, JobStay("14", 901.0, ENDED))).read == ()


def test_when_the_budget_keeps_a_broken_node_in_service_a_task_of_an_array_is_moved_away_alone(desk):
    """The task may bear the array's own number: to requeue that would kill its sisters."""
    ours = "wheeltapper: hardware/pcie at=2026-11-29T12:01:03Z: reboot"
    slurm = FakeSlurm(
        node("n1", ("IDLE", "DRAIN"), ours),
        node("n2"),
        jobs=(job(id="12", state="RUNNING", array="12_3", node_list="n[2-3]"),),
    )
    slurm.jobs["12_3"] = slurm.jobs["12"]
    at = desk(slurm)

    assert not at.hear(Leave("n2", BOOT, "prolog", (xid79(),), "12")).out

    assert slurm.asked == [("requeue", "12_3")]


def test_a_node_cannot_have_a_job_moved_that_is_not_there(desk):
    """It would be a way to requeue anybody's job from any node."""
    ours = "wheeltapper: hardware/pcie at=2026-11-29T12:01:03Z: reboot"
    elsewhere = job(id="12", state="RUNNING", node_list="n[3-4]")
    slurm = FakeSlurm(node("n1", ("IDLE", "DRAIN"), ours), node("n2"), jobs=(elsewhere,))
    at = desk(slurm)

    assert not at.hear(Leave("n2", BOOT, "prolog", (xid79(),), "12")).out

    assert slurm.asked == []
    assert at.journal.kept_off("12") == []


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


def test_what_slurm_itself_may_requeue_at_once_is_left_to_it(desk):
    """Expedited requeue (25.11) waits for the epilogs; a requeue of ours beside it would be a second one."""
    at = desk(cluster(state="COMPLETING", expedited=True))
    at.ended()
    at.reports(xid79(at=1000.0))
    at.round()
    assert at.told() == []

    at.slurm.jobs["14"] = replace(at.slurm.jobs["14"], state="EXPEDITING")
    at.now += 1.0
    at.round()

    [told] = at.told()
    assert told.decision.job.reason == "the scheduler has requeued the job already"
    assert [asked for asked in at.slurm.asked if asked[0] == "requeue"] == []


def test_a_report_that_comes_before_its_jobs_end_is_asked_for_again(desk):
    """A busy slurmctld tells the end late; the logs would never be read."""
    at = desk()
    early = Report("n1", BOOT, JobStay("14", 901.0, ENDED))

    assert at.hear(early) == Answer(later=True)
    at.ended()
    at.round()
    assert at.hear(early).read


def test_an_end_that_never_comes_is_not_asked_for_for_ever(desk):
    assert desk().hear(Report("n1", BOOT, JobStay("14", 901.0, ENDED - 61.0))) == Answer()


def test_the_end_of_a_part_of_a_heterogeneous_job_is_not_waited_for(desk):
    at = desk()
    at.ended("15.1", SLURM_JOB_ID="15", SLURM_HET_JOB_ID="14")
    at.round()

    assert at.hear(Report("n1", BOOT, JobStay("15", 901.0, ENDED))) == Answer()


def test_what_ended_while_the_service_was_away_is_waited_for_as_long_as_any_other(desk):
    """The nodes' reports wait in their outboxes, and come when they try again."""
    at = desk()
    at.ended()
    at.now = ENDED + 3600.0
    at.round()
    assert at.told() == []

    at.now += 30.0
    at.reports(xid79(at=1000.0))
    at.round()

    assert [told.diagnosis.label for told in at.told()] == ["hardware/gpu_xid"]


def test_our_own_absence_is_not_the_nodes_silence(desk):
    """The end was in the journal when the service died; when it is back, the nodes have as long as ever."""
    at = desk()
    at.ended()
    at.round()
    at.now = ENDED + 3600.0
    at.rounds = Rounds(at.parts)
    at.round()
    assert at.told() == []

    at.reports(xid79(at=1000.0))
    at.round()

    assert [told.diagnosis.label for told in at.told()] == ["hardware/gpu_xid"]


def test_a_late_report_of_a_fault_that_a_reboot_has_mended_takes_nothing_out(desk):
    at = desk()
    late(at)
    at.healths.hear(Health("n2", "99999999-2222-3333-4444-555555555555", State.OK, 5.0), at.now)

    at.reports(xid79(at=1000.0))
    at.round()

    assert at.told()[0].diagnosis.label == "hardware/gpu_xid"
    assert [asked for asked in at.slurm.asked if asked[0] == "drain"] == []
