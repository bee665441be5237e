from __future__ import annotations

import pytest

from tests.unit.make import BOOT, xid79
from tests.unit.slurm.fake import job
from tests.unit.slurm.test_names import raw
from wheeltapper.attempt import Ending
from wheeltapper.wire import JobStay, Leave, LogReport, Report
from wheeltapper_slurm import gather, records, spool
from wheeltapper_slurm.gather import Before
from wheeltapper_slurm.journal import Journal, OpenAttempt


def open_attempt(exit_code="1:0", start=900.0, **env):
    ended = spool.parse(raw(SLURM_JOB_EXIT_CODE2=exit_code, **env), at=1100.0)
    return OpenAttempt("14@900", ended, start, "n1", deadline=1160.0)


def report(node="n1", prolog_at=901.0, epilog_at=1100.5, job_id="14"):
    return Report(node, BOOT, JobStay(job_id, prolog_at, epilog_at))


def logged(node="n1"):
    return LogReport(node, JobStay("14", 901.0, 1100.5))


def gathered(attempt=None, reports=(), logs=(), kept_off=(), before=None):
    return gather.gather(attempt or open_attempt(), reports, logs, kept_off, before)


@pytest.mark.parametrize(
    ("prolog_at", "epilog_at", "belongs"),
    [
        pytest.param(901.0, 1100.5, True, id="this attempt"),
        pytest.param(None, 1100.5, True, id="its marker was lost"),
        pytest.param(500.0, 850.0, False, id="the attempt before"),
        pytest.param(1150.0, 1200.0, False, id="the attempt after"),
        pytest.param(896.0, 1096.0, True, id="a clock that is four seconds slow"),
    ],
)
def test_a_report_belongs_to_the_attempt_of_its_time(prolog_at, epilog_at, belongs):
    assert bool(gathered(reports=[report(prolog_at=prolog_at, epilog_at=epilog_at)]).reports) is belongs


def test_who_is_missing_and_who_is_not_waited_for():
    case = gathered(reports=[report("n1")])

    assert case.missing() == {"n2"}
    assert case.missing(silent={"n2"}) == set()


def test_the_logs_are_waited_for_once_the_batch_host_has_reported():
    assert not gathered().logs_missing()
    assert gathered(reports=[report("n1")]).logs_missing()
    assert not gathered(reports=[report("n1")], logs=[logged()]).logs_missing()


@pytest.mark.parametrize(
    ("exit_code", "record", "silent", "how"),
    [
        pytest.param("7:0", job(state="COMPLETING"), (), Ending.FAILED, id="an exit code tells at once"),
        pytest.param("0:11", job(state="COMPLETING"), (), Ending.FAILED, id="so does a signal"),
        pytest.param("0:125", job(state="COMPLETING"), (), Ending.OUT_OF_MEMORY, id="Slurm's own signal for OOM"),
        pytest.param("125:0", job(state="COMPLETING"), (), Ending.FAILED, id="125 as an exit code is the program's"),
        pytest.param("0:0", job(state="COMPLETING"), (), None, id="0:0 says nothing yet"),
        pytest.param(
            "0:0",
            job(state="COMPLETING", ended_as="COMPLETED"),
            (),
            Ending.COMPLETED,
            id="a node that never ends is not waited for",
        ),
        pytest.param(
            "0:0", job(state="COMPLETING", ended_as="PENDING"), (), None, id="requeued, and its nodes are not done"
        ),
        pytest.param("0:0", job(state="COMPLETED"), (), Ending.COMPLETED, id="clean"),
        pytest.param("0:0", job(state="CANCELLED"), (), Ending.CANCELLED, id="cancelled shows 0:0"),
        pytest.param("0:0", job(state="TIMEOUT"), (), Ending.TIME_LIMIT, id="timed out shows 0:0"),
        pytest.param("0:0", job(state="NODE_FAIL"), (), Ending.NODE_FAIL, id="node failed, not requeued"),
        pytest.param("0:0", job(state="PENDING"), ("n2",), Ending.NODE_FAIL, id="node failed, requeued by Slurm"),
        pytest.param("0:0", job(state="PENDING"), (), Ending.REQUEUED, id="requeued by somebody"),
        pytest.param(
            "0:1", job(state="PENDING"), ("n2",), Ending.NODE_FAIL, id="0:1 is how 24.11 writes a failed node"
        ),
        pytest.param("0:1", job(state="FAILED"), (), Ending.FAILED, id="and a hang-up, which the state tells"),
        pytest.param("0:54", job(state="PENDING"), (), Ending.REQUEUED, id="0:54 is how 24.11 writes a failed prolog"),
        pytest.param("0:1", job(state="COMPLETING"), (), None, id="what Slurm made up says nothing yet"),
        pytest.param("0:0", job(state="PREEMPTED"), (), Ending.PREEMPTED, id="preempted"),
        pytest.param("0:0", None, (), Ending.UNKNOWN, id="forgotten by slurmctld"),
        pytest.param("3:0", None, (), Ending.FAILED, id="forgotten, but it had failed"),
        pytest.param(
            "0:0", job(state="FAILED", batch_host="n9"), (), Ending.REQUEUED, id="the state is another attempt's"
        ),
        pytest.param(
            "0:0", job(state="COMPLETED", start=1200.0), (), Ending.REQUEUED, id="so is that of a later attempt"
        ),
        pytest.param("0:0", job(state="FAILED", start=800.0), (), Ending.REQUEUED, id="and of an earlier one"),
        pytest.param(
            "0:0",
            job(state="COMPLETING", ended_as="FAILED", start=800.0),
            (),
            Ending.REQUEUED,
            id="which a slurmctld that was killed has gone back to",
        ),
    ],
)
def test_how_it_ended(exit_code, record, silent, how):
    assert gather.ending(gathered(open_attempt(exit_code)), record, silent) is how


def test_a_job_that_our_prolog_kept_off_is_told_once_slurm_has_requeued_it():
    leave = Leave("n2", BOOT, "prolog", (xid79(),), "14")
    case = gathered(open_attempt("0:0"), kept_off=[(905.0, leave)])

    assert gather.ending(case, job(state="COMPLETING"), ()) is None
    assert gather.ending(case, job(state="PENDING"), ()) is Ending.LAUNCH_FAILED


def test_the_key_is_the_start_time_and_never_the_restart_count():
    first = spool.parse(raw(SLURM_JOB_RESTART_COUNT="0"), at=1100.0)
    again = spool.parse(raw(SLURM_JOB_RESTART_COUNT="1"), at=1100.0)

    assert gather.key(first, 900.0) == gather.key(again, 900.0) == "14@900"
    assert gather.key(first, 901.0) != gather.key(first, 900.0)


def test_slurms_own_attempt_id_is_used_where_there_is_one():
    assert gather.key(spool.parse(raw(SLURM_JOB_SLUID="s4XM3"), at=0.0), 900.0) == "s4XM3"


def test_an_end_that_nothing_ties_to_an_attempt_of_its_own_is_not_judged():
    assert gathered(open_attempt(start=None)).nothing_new()
    assert not gathered(open_attempt(start=None), reports=[report()]).nothing_new()
    assert not gathered().nothing_new()


def test_the_attempt_puts_the_batch_host_first_and_acts_on_the_task():
    made = gather.attempt(gathered(), Ending.FAILED, job(state="COMPLETING"), ())

    assert (made.key, made.job, made.nodes) == ("14@900", "12_3", ("n1", "n2"))
    assert not made.scheduler_requeued
    assert gather.attempt(gathered(), Ending.REQUEUED, job(state="PENDING"), ()).scheduler_requeued


def test_of_a_job_that_slurmctld_knows_no_more_that_is_said_and_nothing_of_its_users_wish():
    made = gather.attempt(gathered(), Ending.FAILED, None, ())

    assert made.leave_alone == "slurmctld does not know the job any more"
    assert gather.attempt(gathered(), Ending.FAILED, job(state="FAILED"), ()).leave_alone == ""


def test_the_journal_keeps_everything_over_a_restart_and_nothing_after_the_decision(tmp_path):
    journal = Journal(tmp_path / "journal.db")
    attempt, leave = open_attempt(), Leave("n2", BOOT, "prolog", (xid79(),), "14")
    later = report("n1", 1150.0, 1200.0)
    for each in (report("n1"), report("n1"), report("n2"), later, logged()):
        journal.receive(each, now=1101.0)
    journal.keep_off(leave, now=905.0)
    assert journal.open(attempt)
    assert not journal.open(attempt)
    journal.close()

    again = Journal(tmp_path / "journal.db")

    assert again.attempts() == again.attempts("14") == [attempt]
    case = gather.gather(attempt, again.reports("14"), again.log_reports("14"), again.kept_off("14"))
    assert [each.node for each in case.reports] == ["n1", "n2"]
    assert (case.logs, case.kept_off) == ((logged(),), (leave,))
    again.settle(attempt, [*case.reports, *case.logs], now=1102.0)
    assert again.attempts() == again.kept_off("14") == []
    assert again.reports("14") == [later]
    again.close()


def test_a_job_of_a_thousand_nodes_is_whole_when_the_last_one_has_reported():
    ended = spool.parse(raw(SLURM_JOB_NODELIST="gpu[0001-0500,1501-2000]", SLURM_JOB_EXIT_CODE2="1:0"), at=1100.0)
    attempt = OpenAttempt("14@900", ended, 900.0, "gpu0001", deadline=1160.0)
    reports = [report(name) for name in ended.nodes]

    assert len(ended.nodes) == 1000
    assert gathered(attempt, reports[:-1]).missing() == {"gpu2000"}
    assert gathered(attempt, reports).missing() == set()
    made = gather.attempt(gathered(attempt, reports), Ending.FAILED, job(), ())
    assert (made.nodes[0], len(made.nodes)) == ("gpu0001", 1000)


def test_a_job_id_of_a_federation_is_a_job_id_like_any_other():
    """The cluster's number stands in the upper bits."""
    ended = spool.parse(raw(SLURM_JOB_ID="201326605", SLURM_ARRAY_JOB_ID=None, SLURM_ARRAY_TASK_ID=None), at=1100.0)

    assert (ended.id, ended.target, gather.key(ended, 900.0)) == ("201326605", "201326605", "201326605@900")


def test_a_step_that_failed_in_a_job_that_went_on_is_the_scripts_business():
    """The batch script's own exit code counts; Slurm's DERIVED_EC is the highest of its steps."""
    case = gathered(open_attempt("0:0", SLURM_JOB_DERIVED_EC="768"))

    assert gather.ending(case, job(state="COMPLETED"), ()) is Ending.COMPLETED


def test_the_job_was_started_by_another_cluster_of_the_federation():
    assert gather.ending(gathered(open_attempt("0:0")), job(state="REVOKED"), ()) is Ending.CANCELLED


def test_what_slurm_requeued_by_itself_is_told_by_its_books():
    """slurmctld shows the next attempt of such a job, and nothing of how this one ended."""
    text = "PREEMPTED|1970-01-01T00:15:00|1970-01-01T00:18:21\nCANCELLED by 0|Unknown|1970-01-01T01:00:00\nPENDING|Unknown|Unknown\nx\n"
    past = records.past(text)
    end = past[0].end

    assert [each.state for each in past] == ["PREEMPTED", "CANCELLED"]
    assert gather.by_the_books(past, end + 1.0) is Ending.PREEMPTED
    assert gather.by_the_books(past, end + 60.0) is None
    assert gather.by_the_books([], end) is None


def test_what_our_prolog_kept_off_needs_no_late_report():
    leave = Leave("n2", BOOT, "prolog", (xid79(),), "14")

    assert gathered(reports=[report("n1")]).may_grow()
    assert gathered(reports=[report("n1"), report("n2")]).may_grow(), "the logs are missing"
    assert not gathered(reports=[report("n1"), report("n2")], logs=[logged()]).may_grow()
    assert not gathered(kept_off=[(905.0, leave)]).may_grow()


@pytest.mark.parametrize(
    ("record", "start"),
    [
        pytest.param(job(state="FAILED", start=900.0), 900.0, id="this attempt"),
        pytest.param(job(state="PENDING", start=1099.0, batch_host=None), None, id="it waits for its next attempt"),
        pytest.param(job(state="RUNNING", start=1100.0, batch_host="n9"), None, id="the next attempt runs elsewhere"),
        pytest.param(job(state="RUNNING", start=1101.0), None, id="the next attempt began after this end"),
        pytest.param(None, None, id="slurmctld has forgotten the job"),
    ],
)
def test_the_start_that_slurmctld_shows_is_taken_only_when_it_can_be_this_attempts(record, start):
    assert gather.start_of(open_attempt().ended, record) == start


def test_the_start_in_the_ends_own_words_needs_no_record():
    """From 24.11 on EpilogSlurmctld is told."""
    assert gather.start_of(open_attempt(SLURM_JOB_START_TIME="700").ended, job(state="PENDING")) == 700.0


@pytest.mark.parametrize(
    ("start", "prolog_at", "told_before"),
    [
        pytest.param(1099.0, None, True, id="epilogs that ran again"),
        pytest.param(1099.0, 901.0, True, id="accounts of the attempt that was decided on"),
        pytest.param(1099.0, 1090.0, False, id="a prolog has run since"),
        pytest.param(None, None, True, id="no start, and epilogs that ran again"),
    ],
)
def test_an_end_is_of_a_new_attempt_when_a_prolog_ran_since_the_last_decision(start, prolog_at, told_before):
    case = gathered(open_attempt(start=start), reports=[report(prolog_at=prolog_at)], before=Before(1050.0))

    assert case.nothing_new(decided=1050.0) is told_before


@pytest.mark.parametrize(
    ("start", "told_before"),
    [
        pytest.param(900.0, True, id="it had begun before that end: the same attempt"),
        pytest.param(1049.0, True, id="a second before"),
        pytest.param(1050.0, False, id="in the very second: it may be the next one"),
        pytest.param(1060.0, False, id="after it"),
    ],
)
def test_an_end_that_is_told_again_with_its_start_and_of_which_nodes_say_nothing_more(start, told_before):
    """When it was told first slurmctld did not answer, so it was known by its end; its reports went with the decision."""
    assert gathered(open_attempt(start=start)).nothing_new(decided=1050.3) is told_before


@pytest.mark.parametrize(
    ("epilog_at", "old"),
    [
        pytest.param(1100.5, True, id="it is of that very epilog"),
        pytest.param(1098.0, False, id="its prolog ran since, though the controller's clock is ahead"),
        pytest.param(1099.8, False, id="that epilog, of a node that had failed, ended after its prolog"),
    ],
)
def test_an_account_that_comes_again_is_not_taken_for_the_next_attempts(epilog_at, old):
    """A node that was told to ask later sends its report twice; the next attempt may have begun a second later."""
    before = Before(decided=1099.6, epilogs={("14", "n1"): epilog_at})
    case = gathered(open_attempt(start=1100.0), reports=[report(prolog_at=1099.0)], before=before)

    assert ("n1" in case.missing()) == bool(case.old) == old


@pytest.mark.parametrize(
    ("start", "requeued", "brought"),
    [
        pytest.param(1100.0, (1100.2, 1100.3), True, id="in its second"),
        pytest.param(1101.0, (1100.9, 1101.1), True, id="slurmctld came to it in the next"),
        pytest.param(1102.0, (1100.9, 1101.1), False, id="later: an attempt of its own"),
        pytest.param(1099.0, (1100.2, 1100.3), False, id="before"),
        pytest.param(None, (1100.2, 1100.3), False, id="nobody knows when it began"),
        pytest.param(1100.0, None, False, id="we have requeued nothing"),
    ],
)
def test_an_end_that_our_own_requeue_brings_about_is_known_by_its_start(start, requeued, brought):
    assert Before(requeued=requeued).brought(open_attempt(start=start)) is brought


def test_where_slurm_tells_the_start_itself_no_requeue_can_have_brought_it_about():
    told = open_attempt(start=1100.0, SLURM_JOB_START_TIME="1100")

    assert not Before(requeued=(1100.2, 1100.3)).brought(told)


def test_a_job_of_which_nothing_was_decided_yet_has_no_end_that_was_told_before():
    assert not gathered(reports=[report(prolog_at=None)]).nothing_new(None)


def test_only_the_attempts_own_nodes_can_have_kept_it_off():
    """An end that is told again may meet the leave that the next attempt's node asked for."""
    leaves = [(1099.0, Leave(name, BOOT, "prolog", (xid79(),), "14")) for name in ("n1", "n9")]

    assert [leave.node for leave in gathered(kept_off=leaves).kept_off] == ["n1"]


def test_an_end_that_slurmctld_has_forgotten_is_none_of_slurms_own_requeues():
    record = job(state="RUNNING", start=900.0)

    assert gather.forgotten(open_attempt(), record)
    assert not gather.attempt(gathered(), Ending.FAILED, record, ()).scheduler_requeued
    assert not gather.forgotten(open_attempt(), job(state="RUNNING", start=1200.0))


def test_a_slurmctld_that_shows_how_the_attempt_before_ended_has_forgotten_this_one():
    """It was killed after a second attempt, and goes on from when the first had failed."""
    assert gather.forgotten(open_attempt(), job(state="FAILED", batch_host="n9", end=1050.0))
    assert not gather.forgotten(open_attempt(), job(state="FAILED"))
    assert not gather.forgotten(open_attempt(), job(state="COMPLETED", batch_host="n9", start=1200.0, end=1300.0))


def test_a_job_that_has_run_again_and_ended_was_requeued_by_slurm():
    record = job(state="COMPLETED", batch_host="n9", start=1200.0, end=1300.0)

    assert gather.attempt(gathered(), Ending.REQUEUED, record, ()).scheduler_requeued
