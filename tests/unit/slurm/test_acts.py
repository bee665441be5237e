from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace

import pytest

from tests.unit.make import attempt, diagnosis, logged, xid79
from tests.unit.slurm.fake import FakeSlurm, job, node
from wheeltapper.attempt import Ending
from wheeltapper.config import Mode, PolicySection
from wheeltapper.errors import SchedulerDown
from wheeltapper.ledger.model import Act, Interruption, Outcome
from wheeltapper.ledger.store import Ledger
from wheeltapper.policy.model import Decision, JobAction, Payer
from wheeltapper_slurm import acts, comment
from wheeltapper_slurm.acts import Doer

REQUEUE = Decision(JobAction(True, "again", delay=60.0, exclude=("n2",), payer=Payer.USER))


class Memory:
    """What a doer has told of jobs' exclusions and requeues."""

    def __init__(self, avoided=()):
        self.excluded = []
        self.requeued = []
        self.nodes = frozenset(avoided)

    def requeue(self, job, attempt, now):
        self.requeued.append(("asked", job, attempt, now))

    def note_requeued(self, job, attempt, now):
        self.requeued.append(("answered", job, attempt, now))

    def exclude(self, job, nodes, now):
        self.excluded.append((job, nodes, now))

    def avoid(self, job, nodes, now):
        self.nodes = frozenset(nodes)

    def avoided(self, job):
        return self.nodes


@pytest.fixture
def ledger(tmp_path):
    store = Ledger(tmp_path / "ledger.db")
    yield store
    store.close()


def do(ledger, slurm, *planned):
    case = Interruption(attempt(), diagnosis("network/link_down"), REQUEUE, Mode.FULL, 1200.0)
    ledger.record(case, planned)
    return asyncio.run(Doer(slurm, ledger, Mode.FULL, memory=Memory()).do("12@900"))


def outcomes(ledger):
    return [(act.kind, act.outcome.value) for act in ledger.acts()]


@pytest.mark.parametrize("mode", ["observe", "quarantine"])
def test_a_mode_that_does_not_requeue_writes_down_what_it_would_have_done(mode):
    planned = acts.plan(REQUEUE, attempt(), "note", PolicySection(mode=mode))

    assert [(act.kind, act.outcome.value) for act in planned] == [
        ("requeue", "observed"),
        ("annotate", "planned"),
        ("exclude", "observed"),
        ("start", "observed"),
    ]


def test_full_mode_plans_label_requeue_exclusion_and_start():
    planned = acts.plan(REQUEUE, attempt(), "note", PolicySection(mode="full"))

    assert [(act.kind, act.value) for act in planned] == [
        ("requeue", "900"),
        ("annotate", "note"),
        ("exclude", "n2"),
        ("start", "now+60"),
    ]
    assert {act.outcome for act in planned} == {Outcome.PLANNED}


@pytest.mark.parametrize(("delay", "start"), [(0.0, "now+1"), (0.2, "now+1"), (1.5, "now+2"), (60.0, "now+60")])
def test_a_job_starts_no_earlier_than_its_delay_and_never_within_the_second_of_its_requeue(delay, start):
    """Its node would kill it there: it takes back the credentials of that whole second."""
    again = replace(REQUEUE, job=replace(REQUEUE.job, delay=delay))

    planned = acts.plan(again, attempt(), "note", PolicySection(mode="full"))

    assert planned[-1].value == start


def test_a_finished_job_is_labelled_in_slurmdbd_under_its_own_number(ledger):
    slurm = FakeSlurm(jobs=(job(id="14"),), recorded={"14"})
    slurm.jobs["12_3"] = slurm.jobs["14"]

    assert do(ledger, slurm, Act("annotate", "12_3", "a1 x"))

    assert slurm.asked[-1] == ("annotate_finished", "14", "wheeltapper: a1 x")
    assert outcomes(ledger) == [("annotate", "done")]


def test_slurmdbd_is_given_time_to_hear_of_the_end_but_not_for_ever(ledger):
    slurm = FakeSlurm(jobs=(job(end=1100.0),), recorded=set())
    case = Interruption(attempt(), diagnosis("network/link_down"), REQUEUE, Mode.FULL, 1200.0)
    ledger.record(case, [Act("annotate", "12", "a1 x")])

    assert not asyncio.run(Doer(slurm, ledger, Mode.FULL, lambda: 1101.0, memory=Memory()).do("12@900"))
    assert outcomes(ledger) == [("annotate", "planned")]
    assert asyncio.run(Doer(slurm, ledger, Mode.FULL, lambda: 1200.0, memory=Memory()).do("12@900"))
    assert outcomes(ledger) == [("annotate", "failed")]


def test_no_requeue_means_the_label_alone_and_without_annotate_nothing():
    stop = Decision(JobAction(False, "software"))

    assert [act.kind for act in acts.plan(stop, attempt(), "note", PolicySection(mode="full"))] == ["annotate"]
    assert acts.plan(stop, attempt(), "note", PolicySection(mode="full", annotate=False)) == []


def test_a_requeued_job_avoids_the_node_and_keeps_the_users_own_exclusions(ledger):
    slurm = FakeSlurm(jobs=(job(excluded=("n7",)),))

    assert do(ledger, slurm, Act("requeue", "12", "900"), Act("exclude", "12", "n2"), Act("start", "12", "now+60"))

    assert slurm.asked == [
        ("requeue", "12"),
        ("update", "12", "ExcNodeList", "n[2,7]"),
        ("update", "12", "StartTime", "now+60"),
    ]
    assert outcomes(ledger) == [("requeue", "done"), ("exclude", "done"), ("start", "done")]


def test_what_our_own_prolog_kept_off_is_sent_on_in_quarantine_mode_too():
    case = attempt(ending=Ending.LAUNCH_FAILED, scheduler_requeued=True)
    kept_off = Decision(JobAction(True, "elsewhere", exclude=("n2",)))

    assert {act.outcome for act in acts.plan(kept_off, case, "n", PolicySection(mode="quarantine"))} == {
        Outcome.PLANNED
    }
    observed = acts.plan(kept_off, case, "n", PolicySection(mode="observe", annotate=False))
    assert {act.outcome for act in observed} == {Outcome.OBSERVED}


def test_a_mode_that_was_turned_down_holds_for_what_was_planned_before(ledger):
    slurm = FakeSlurm(jobs=(job(),))
    case = Interruption(attempt(), diagnosis("network/link_down"), REQUEUE, Mode.FULL, 1200.0)
    ledger.record(case, [Act("requeue", "12", "900")])

    assert asyncio.run(Doer(slurm, ledger, Mode.OBSERVE, memory=Memory()).do("12@900"))

    assert slurm.asked == []
    assert outcomes(ledger) == [("requeue", "observed")]


def test_a_job_that_was_requeued_before_a_restart_is_not_requeued_again(ledger):
    slurm = FakeSlurm(jobs=(job(state="RUNNING", start=1200.0),))

    assert do(ledger, slurm, Act("requeue", "12", "900"), Act("exclude", "12", "n2"), Act("start", "12", "now+1"))
    assert slurm.asked == []


def test_a_later_attempt_that_has_ended_meanwhile_is_left_alone(ledger):
    slurm = FakeSlurm(jobs=(job(start=5000.0),))

    do(ledger, slurm, Act("requeue", "12", "900"))

    assert slurm.asked == []


@pytest.mark.parametrize("kind", ["requeue", "annotate", "exclude", "release", "start"])
def test_a_number_that_another_users_job_has_by_now_is_not_acted_on(ledger, kind):
    """slurmctld begins to count anew when it has lost its state."""
    slurm = FakeSlurm(jobs=(job(uid=1001),))
    case = Interruption(attempt(uid=1000), diagnosis("network/link_down"), REQUEUE, Mode.FULL, 1200.0)
    ledger.record(case, [Act(kind, "12", "0")])

    assert asyncio.run(Doer(slurm, ledger, Mode.FULL, memory=Memory()).do("12@900"))

    assert slurm.asked == []
    assert [(act.outcome.value, act.note) for act in ledger.acts()] == [
        ("failed", "the job's number now belongs to a job of user 1001")
    ]


def test_the_start_waits_until_the_epilogs_are_over(ledger):
    slurm = FakeSlurm(jobs=(job(state="COMPLETING"),))

    assert not do(ledger, slurm, Act("start", "12", "now+1"))
    assert slurm.asked == []
    assert outcomes(ledger) == [("start", "planned")]


def test_what_slurm_held_after_our_prolog_is_released_and_what_a_person_holds_is_not(ledger):
    slurm = FakeSlurm(jobs=(job(state="PENDING", priority=0, reason="launch_failed_requeued_held"),))
    do(ledger, slurm, Act("release", "12"), Act("start", "12", "now+1"))
    assert slurm.asked == [("release", "12"), ("update", "12", "StartTime", "now+1")]

    person = FakeSlurm(jobs=(job(state="PENDING", priority=0, reason="JobHeldAdmin"),))
    other = Interruption(attempt(key="12@901"), diagnosis("network/link_down"), REQUEUE, Mode.FULL, 1.0)
    ledger.record(other, [Act("release", "12"), Act("start", "12", "now+1")])
    asyncio.run(Doer(person, ledger, Mode.FULL, memory=Memory()).do("12@901"))
    assert person.asked == []


def test_a_refusal_is_written_down_and_the_rest_goes_on(ledger):
    slurm = FakeSlurm(jobs=(job(requeueable=False),))

    assert do(ledger, slurm, Act("requeue", "12", "900"), Act("annotate", "12", "x"))
    assert outcomes(ledger) == [("requeue", "failed"), ("annotate", "failed")]
    assert "no slurmdbd" in ledger.acts()[1].note


def test_a_silent_slurmctld_leaves_the_acts_to_be_done_later(ledger):
    slurm = FakeSlurm(jobs=(job(),), down=True)

    assert not do(ledger, slurm, Act("requeue", "12", "900"))
    assert outcomes(ledger) == [("requeue", "planned")]

    slurm.down = False
    assert asyncio.run(Doer(slurm, ledger, Mode.FULL, memory=Memory()).do("12@900"))
    assert slurm.asked == [("requeue", "12")]


@pytest.mark.parametrize("down", [False, True], ids=["it answers", "nobody knows whether it was heard"])
def test_from_when_to_when_slurmctld_was_busy_with_a_requeue_is_remembered(ledger, down):
    """Before it is asked, too: we may be killed while it is at it."""
    ledger.record(
        Interruption(attempt(), diagnosis("network/link_down"), REQUEUE, Mode.FULL, 1200.0),
        [Act("requeue", "12", "900")],
    )
    slurm, memory, clock = FakeSlurm(jobs=(job(),)), Memory(), itertools.count(1300.0)

    async def refuse(job):
        raise SchedulerDown("slurmctld does not answer")

    slurm.requeue = refuse if down else slurm.requeue
    asyncio.run(Doer(slurm, ledger, Mode.FULL, lambda: next(clock), memory=memory).do("12@900"))

    assert memory.requeued == [("asked", "12", "12@900", 1300.0), ("answered", "12", "12@900", 1301.0)]


def test_a_requeue_whose_answer_we_did_not_live_to_hear_is_known_to_be_done_when_the_job_waits(ledger):
    ledger.record(
        Interruption(attempt(), diagnosis("network/link_down"), REQUEUE, Mode.FULL, 1200.0),
        [Act("requeue", "12", "900")],
    )
    memory = Memory()
    asyncio.run(
        Doer(FakeSlurm(jobs=(job(state="PENDING"),)), ledger, Mode.FULL, lambda: 1300.0, memory=memory).do("12@900")
    )

    assert memory.requeued == [("answered", "12", "12@900", 1300.0)]


def test_no_job_is_starved_by_exclusions(ledger):
    many = tuple(f"n{number}" for number in range(acts.MAX_EXCLUDED))
    slurm = FakeSlurm(jobs=(job(state="PENDING", excluded=many),))

    do(ledger, slurm, Act("exclude", "12", "x1"))

    assert slurm.asked == []
    assert outcomes(ledger) == [("exclude", "failed")]


def test_the_comment_names_label_proof_and_what_follows():
    oom = diagnosis("software/oom", logged("software/oom", "torch.OutOfMemoryError: CUDA out of memory."))

    text = comment.entry(2, oom, JobAction(False, "it would happen again"))

    assert text == (
        "a2 software/oom at /home/u/slurm-12.out:34: 'torch.OutOfMemoryError: CUDA out of memory.'"
        " -> not requeued, it would happen again"
    )


def test_comments_gather_per_attempt_and_foreign_text_stays():
    first = comment.merge("billing: grant 7 ", "a1 x")
    second = comment.merge(first, "a2 y")

    assert second == "billing: grant 7 wheeltapper: a1 x; a2 y"
    assert comment.merge(second, "a2 z") == "billing: grant 7 wheeltapper: a1 x; a2 z"


def test_the_oldest_entries_go_when_the_comment_grows_too_long():
    text = ""
    for number in range(1, 40):
        text = comment.merge(text, f"a{number} {'x' * 90}")

    assert len(text) <= comment.MAX_CHARS + len(comment.PREFIX)
    assert "a39 " in text
    assert "a1 " not in text


def test_a_diagnosis_from_the_kernel_log_names_the_node():
    hardware = diagnosis("hardware/gpu_xid", xid79())

    assert "hardware/gpu_xid xid=79 at n2 kernel log: 'NVRM: Xid" in comment.entry(1, hardware, JobAction(True, "r"))


LARGE = attempt(nodes=("n1", "n2"), partition="main")


@pytest.mark.parametrize(
    ("others", "excluded"),
    [
        pytest.param(2, "n[7-9]", id="others for all"),
        pytest.param(1, "n[7,9]", id="others for one"),
        pytest.param(0, "n7", id="no others"),
    ],
)
def test_what_failed_last_is_avoided_first_as_far_as_others_are_free(ledger, others, excluded):
    """Of n9, n8 and n5, the last two came later than the others; n5 was avoided before, and n7 is the user's choice."""
    others = [f"n{number}" for number in range(1, others + 1)]
    slurm = FakeSlurm(
        *map(node, [*others, "n5", "n9", "n8", "n7"]),
        node("n3", ("IDLE", "DRAIN")),
        node("n4", partitions=("other",)),
        node("n6", ("ALLOCATED",)),
        jobs=(job(state="PENDING", excluded=("n5", "n7")),),
    )
    memory = Memory(avoided=["n5"])
    large = replace(LARGE, nodes=("n1", "n2", "n3"))
    ledger.record(
        Interruption(large, diagnosis("network/link_down"), REQUEUE, Mode.FULL, 1200.0), [Act("avoid", "12", "n9,n8")]
    )

    assert asyncio.run(Doer(slurm, ledger, Mode.FULL, memory=memory).do("12@900"))

    assert slurm.asked == [("update", "12", "ExcNodeList", excluded)]
    assert outcomes(ledger) == [("avoid", "done")]


def test_what_a_job_may_be_given_is_known_when_its_epilogs_are_over(ledger):
    slurm = FakeSlurm(jobs=(job(state="COMPLETING"),))

    assert not do(ledger, slurm, Act("avoid", "12", "n9"))
    assert outcomes(ledger) == [("avoid", "planned")]


def test_a_job_that_avoids_nodes_says_so_in_its_plan():
    decision = Decision(replace(REQUEUE.job, avoid=("n8", "n9")))

    assert ("avoid", "n8,n9") in [(act.kind, act.value) for act in acts.plan(decision, LARGE, "n", PolicySection())]


def test_what_we_exclude_is_remembered_without_what_the_user_had_excluded(ledger):
    slurm = FakeSlurm(jobs=(job(state="PENDING", excluded=("n7",)),))
    ledger.record(
        Interruption(attempt(), diagnosis("network/link_down"), REQUEUE, Mode.FULL, 1200.0),
        [Act("exclude", "12", "n2,n7")],
    )
    memory = Memory()

    asyncio.run(Doer(slurm, ledger, Mode.FULL, lambda: 1300.0, memory=memory).do("12@900"))

    assert memory.excluded == [("12", {"n2"}, 1300.0)]


@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.REQUEUED, Ending.NODE_FAIL])
def test_only_what_our_own_prolog_kept_off_is_released(ending):
    """Another program's prolog may have failed: then the hold is its owners' business."""
    planned = acts.plan(REQUEUE, attempt(ending=ending), "n", PolicySection(mode="full"))
    kept_off = acts.plan(REQUEUE, attempt(ending=Ending.LAUNCH_FAILED), "n", PolicySection(mode="full"))

    assert "release" not in [act.kind for act in planned]
    assert "release" in [act.kind for act in kept_off]


@pytest.mark.parametrize("state", ["RUNNING", "CONFIGURING", "SUSPENDED", "STOPPED", "PENDING", "EXPEDITING"])
def test_a_job_that_goes_on_is_not_requeued(ledger, state):
    slurm = FakeSlurm(jobs=(job(state=state, start=1200.0),))

    assert do(ledger, slurm, Act("requeue", "12", "900"))
    assert slurm.asked == []


def test_a_job_that_slurmctld_takes_for_running_though_it_told_us_of_its_end_is_requeued(ledger):
    """It was killed before it had saved that end, and would find out within half an hour."""
    slurm = FakeSlurm(jobs=(job(state="RUNNING", start=900.0),))

    assert do(ledger, slurm, Act("requeue", "12", "900"))
    assert slurm.asked == [("requeue", "12")]
