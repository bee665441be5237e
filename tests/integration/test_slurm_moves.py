"""Running jobs on nodes that prove to be broken under them."""

from __future__ import annotations

from tests.integration.slurm_desk import ENDED, cluster, moved
from tests.unit.make import BOOT, xid79
from tests.unit.slurm.fake import FakeSlurm, job, node
from wheeltapper.ledger.model import Outcome
from wheeltapper.wire import JobStay, Leave, Report


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
