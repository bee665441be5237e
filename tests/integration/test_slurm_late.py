"""Reports that come before their job's end, after the decision on it, or while the service was away."""

from __future__ import annotations

from tests.integration.slurm_desk import ENDED, cluster
from tests.unit.make import BOOT, logged, xid79
from wheeltapper.policy.model import History
from wheeltapper.verdict import State
from wheeltapper.wire import Answer, Health, JobStay, Report
from wheeltapper_slurm.rounds import Rounds


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


def test_a_late_report_of_a_fault_that_a_reboot_has_mended_takes_nothing_out(desk):
    at = desk()
    late(at)
    at.healths.hear(Health("n2", "99999999-2222-3333-4444-555555555555", State.OK, 5.0), at.now)

    at.reports(xid79(at=1000.0))
    at.round()

    assert at.told()[0].diagnosis.label == "hardware/gpu_xid"
    assert [asked for asked in at.slurm.asked if asked[0] == "drain"] == []


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
