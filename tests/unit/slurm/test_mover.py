"""Jobs that still run on hardware which their node proves to be broken: ended once, or left where they are."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.unit.make import BOOT, attempt, diagnosis, xid79
from tests.unit.slurm.fake import FakeSlurm, job, node
from wheeltapper.config import Config
from wheeltapper.errors import SchedulerDown
from wheeltapper.ledger.model import Act, Interruption, Outcome
from wheeltapper.ledger.store import Ledger
from wheeltapper.policy.model import Decision, JobAction, Payer
from wheeltapper.verdict import State
from wheeltapper.wire import Health, JobStay, Leave
from wheeltapper_slurm.arrivals import Arrivals
from wheeltapper_slurm.healths import Healths
from wheeltapper_slurm.journal import Journal
from wheeltapper_slurm.lasting import Lasting
from wheeltapper_slurm.mover import Mover
from wheeltapper_slurm.parts import Parts
from wheeltapper_slurm.quarantine import Gate
from wheeltapper_slurm.recall import Recall

MINE = "0000:3b:00"
OURS = "wheeltapper: hardware/gpu_xid xid=79 gpu=0000:3b:00 at=2026-11-29T12:01:03Z: reboot"
ENDED = [("end", "12")]


def running(**changes):
    return job(**{"state": "RUNNING", "node_list": "n[1-2]", "end": None, **changes})


class Yard:
    """A mover, and job 12 that runs on n1 and n2 since 900; the fault of n2 was at 1000."""

    def __init__(self, folder, *nodes, jobs=(), **policy):
        self.config = Config(policy={"mode": "full", "move_after_s": 30.0, **policy})
        self.now = 1001.0
        self.slurm = FakeSlurm(node("n1"), *(nodes or [node("n2")]), jobs=jobs or (running(),))
        self.ledger = Ledger(folder / "ledger.db")
        self.journal = Journal(folder / "journal.db")
        self.restart()

    def restart(self):
        """A new service on the old files; it has heard nobody."""
        clock = lambda: self.now  # noqa: E731
        self.gate = Gate(self.slurm, self.ledger, self.config.policy, clock=clock)
        lasting = Lasting(self.slurm, self.journal, clock)
        self.healths = Healths(120.0)
        parts = Parts(self.config, self.slurm, self.ledger, self.journal, self.gate, Arrivals(), self.healths, clock)
        self.mover, self.recall = Mover(parts, lasting), Recall(parts, lasting)

    def hear(self, *stays, finding=None):
        """The node tells of its fault and of the jobs that are there."""
        stays = stays or (JobStay("12", 900.5, None, (MINE,)),)
        self.healths.hear(Health("n2", BOOT, State.FAIL, 1.0, (finding or xid79(),), stays), self.now)

    def look(self, later=0.0):
        self.now += later
        asyncio.run(self.mover.look())
        return self.slurm.asked

    def waits(self):
        """The node tells, and the grace passes."""
        self.hear()
        self.look()
        return self.look(30.0)


@pytest.fixture
def yard(tmp_path):
    yards = []

    def make(*nodes, **options):
        yards.append(Yard(tmp_path, *nodes, **options))
        return yards[-1]

    yield make
    for each in yards:
        each.ledger.close()
        each.journal.close()


def test_a_job_that_still_runs_after_the_grace_is_ended_once(yard):
    at = yard()
    at.hear()

    assert at.look() == []
    assert at.look(29.0) == []
    assert at.look(1.0) == ENDED
    at.hear()
    assert at.look(60.0) == ENDED
    assert at.look(600.0) == ENDED


def test_it_is_in_the_journal_before_slurmctld_is_asked(yard, monkeypatch):
    at = yard()

    async def end(_job):
        noted.extend((deed.kind, deed.name) for deed in at.journal.deeds())
        noted.append(at.journal.move("12@900").done)

    noted = []
    monkeypatch.setattr(at.slurm, "end", end)
    at.waits()

    assert noted == [("move", "12@900"), False]
    assert at.journal.move("12@900").done


def test_a_service_that_dies_in_the_middle_finds_what_is_left_and_the_record_is_whole(yard, monkeypatch):
    at = yard()

    async def end(_job):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(at.slurm, "end", end)
        with pytest.raises(KeyboardInterrupt):
            at.waits()
    at.restart()

    assert [act.kind for act in at.mover.acts(attempt())] == ["end"], "it may have been heard"
    assert at.waits() == ENDED


def test_its_record_says_that_we_ended_it_and_why(yard):
    at = yard()
    at.waits()

    [act] = at.mover.acts(attempt())
    assert act == Act("end", "12", "", Outcome.DONE, "it still ran on n2 30 s after hardware/gpu_xid was heard of")
    assert at.mover.acts(attempt(start=2000.0)) == []


def test_a_service_that_starts_again_ends_it_no_second_time_and_the_next_attempt_like_any_other(yard):
    at = yard()
    at.waits()
    at.restart()
    assert at.waits() == ENDED

    at.healths.hear(Health("n2", BOOT, State.OK, 1.0), at.now)
    at.look(1.0)
    at.slurm.jobs["12"] = running(start=2000.0)
    at.hear(JobStay("12", 2000.5, None, (MINE,)), finding=xid79(at=2010.0))
    at.look(1.0)
    assert at.look(30.0) == ENDED * 2


def test_what_the_node_said_of_an_earlier_attempt_ends_no_later_one(yard):
    at = yard()
    at.hear()
    at.look()
    at.slurm.jobs["12"] = running(start=1020.0)

    assert at.look(30.0) == []


def test_what_slurmctld_did_not_hear_is_said_again(yard):
    at = yard()
    at.hear()
    at.look()
    at.slurm.down = True
    with pytest.raises(SchedulerDown):
        at.look(30.0)

    at.slurm.down = False
    assert at.look(1.0) == ENDED


def test_where_it_is_not_known_whether_slurmctld_heard_it_is_asked_whether_the_job_still_runs(yard, monkeypatch):
    at = yard()

    async def end(_job):
        raise SchedulerDown("scancel --batch did not answer within 10 s")

    with monkeypatch.context() as patch:
        patch.setattr(at.slurm, "end", end)
        with pytest.raises(SchedulerDown):
            at.waits()
    at.slurm.jobs["12"] = running(state="COMPLETING")
    assert at.look(1.0) == []
    assert [act.kind for act in at.mover.acts(attempt())] == ["end"]


def test_what_a_slurmctld_that_was_killed_may_not_have_done_is_done_again(yard):
    at = yard()
    at.waits()
    at.slurm.started = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(at.now + 2.0))
    at.now += 3.0
    asyncio.run(at.recall.look())

    assert at.look(60.0) == ENDED * 2


@pytest.mark.parametrize("state", ["COMPLETING", "SUSPENDED", "CONFIGURING", "PENDING", "FAILED"])
def test_what_does_not_run_is_left(yard, state):
    assert yard(jobs=(running(state=state),)).waits() == []


def test_a_node_cannot_have_a_job_ended_that_is_not_there(yard):
    assert yard(jobs=(running(node_list="n[3-4]"),)).waits() == []


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"comment": "wheeltapper=off"}, id="the user said off"),
        pytest.param({"requeueable": False}, id="submitted with --no-requeue"),
        pytest.param({"batch": False}, id="interactive"),
    ],
)
def test_a_job_that_would_not_run_again_is_not_ended(yard, changes):
    assert yard(jobs=(running(**changes),)).waits() == []


def test_where_jobs_must_ask_for_it_only_those_are_moved_that_did(yard):
    at = yard(requeue_by_default=False)
    assert at.waits() == []
    at.slurm.jobs["12"] = running(comment="wheeltapper=on")
    assert at.look(60.0) == ENDED


def test_a_job_that_the_machines_have_failed_too_often_is_left_to_a_person(yard):
    at = yard(infrastructure_retry_budget=1)
    decision = Decision(JobAction(True, "again", payer=Payer.INFRASTRUCTURE))
    before = attempt(key="12@100", start=100.0, end=200.0)
    told = Interruption(before, diagnosis("hardware/gpu_xid"), decision, at.config.policy.mode, 200.0)
    at.ledger.record(told, [Act("requeue", "12", outcome=Outcome.DONE)])

    assert at.waits() == []


@pytest.mark.parametrize("mode", ["observe", "quarantine"])
def test_another_mode_only_says_what_would_be_done(yard, caplog, mode):
    caplog.set_level("INFO")
    assert yard(mode=mode).waits() == []
    assert f"job 12 still runs on n2 with hardware/gpu_xid xid=79 and stays there: mode {mode};" in caplog.text


def test_it_can_be_switched_off(yard):
    assert yard(move_after_s=0).waits() == []


def test_a_node_that_we_took_out_or_that_the_budget_keeps_in_makes_no_difference(yard):
    assert yard(node("n2", ("ALLOCATED", "DRAIN"), OURS)).waits() == ENDED


@pytest.mark.parametrize(
    "there",
    [
        pytest.param(node("n2", ("ALLOCATED", "DRAIN"), "admin: swapping a fan"), id="a person has taken it out"),
        pytest.param(node("n2", ("DOWN", "NOT_RESPONDING")), id="slurmctld has given it up"),
    ],
)
def test_where_somebody_else_has_the_say_nothing_is_done(yard, there):
    assert yard(there).waits() == []


def test_a_fault_that_a_person_has_put_the_node_back_in_spite_of_moves_nothing(yard):
    at = yard()
    asyncio.run(at.gate.ask(Leave("n2", BOOT, "healthcheck", (xid79(),))))
    at.slurm.put_back("n2")
    at.slurm.asked.clear()

    assert at.waits() == []


def test_a_job_that_has_lived_with_a_fault_for_longer_than_a_diagnosis_looks_back_stays(yard, caplog):
    """The service was away, or in another mode; the end that it made would be one that nothing explains."""
    caplog.set_level("INFO")
    at = yard()
    at.now += 3600.0

    assert at.waits() == []
    assert "stays there: it has lived with that for 61 minutes" in caplog.text


def test_a_task_of_an_array_is_named_as_one(yard):
    at = yard(jobs=(running(array="11_3"),))
    assert at.waits() == [("end", "11_3")]


def test_a_heterogeneous_job_is_ended_through_its_leader(yard):
    at = yard(jobs=(running(id="11", het_leader="11"), running(id="12", het_leader="11", batch=False)))
    assert at.waits() == [("end", "11")]


def test_a_job_that_may_have_no_gpu_is_moved_only_where_slurm_hands_out_none(yard):
    at = yard()
    at.slurm.settings["GresTypes"] = "craynetwork,gpu"
    at.hear(JobStay("12", 900.5, None))
    at.look()
    assert at.look(30.0) == []

    at.slurm.settings["GresTypes"] = "(null)"
    assert at.look(60.0) == ENDED


@pytest.mark.parametrize(("has", "ended"), [(8, ENDED), (7, [])])
def test_a_job_that_has_every_gpu_of_the_node_has_the_broken_one_wherever_it_is(yard, has, ended):
    at = yard(node("n2", gpus=8))
    at.slurm.settings["GresTypes"] = "gpu"
    at.hear(JobStay("12", 900.5, None, (), has))
    at.look()
    assert at.look(30.0) == ended


def test_slurmctld_is_asked_about_a_job_that_stays_once_a_minute(yard, monkeypatch):
    at = yard(jobs=(running(comment="wheeltapper=off"),))
    asked = []

    async def seen(name, _name=None):
        asked.append(name)
        return at.slurm.jobs[name]

    monkeypatch.setattr(at.slurm, "job", seen)
    at.waits()
    for _ in range(30):
        at.look(2.0)

    assert asked == ["12", "12"]


def test_what_slurmctld_refuses_is_tried_again_later(yard, caplog):
    at = yard()
    at.slurm.refusals.add("end")
    assert at.waits() == ENDED
    assert "job 12 on n2: Job/step already completing or completed" in caplog.text
    assert at.mover.acts(attempt()) == []
    at.slurm.refusals.clear()

    assert at.look(59.0) == ENDED
    assert at.look(1.0) == ENDED * 2


def test_a_node_that_is_well_again_has_nothing_moved(yard):
    at = yard()
    at.hear()
    at.look()
    at.healths.hear(Health("n2", BOOT, State.OK, 1.0), at.now)
    assert at.look(30.0) == []
    at.hear()

    assert at.look(1.0) == []
