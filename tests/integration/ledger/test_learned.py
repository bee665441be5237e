"""What the ledger holds is what the statistics are given, in both databases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.integration.ledger.made import interruption
from tests.unit.make import attempt, diagnosis, xid79
from wheeltapper.diagnosis.lessons import Lessons, reconsider
from wheeltapper.ledger.learned import keep, learn, lessons, material

DAY_S = 86_400.0
NOW = 20_000 * DAY_S


def learned(ledger):
    return learn(material(ledger, NOW - 30 * DAY_S, NOW))


def failed_on_a_gpu(number, node="n2"):
    """A program of its own user that met an application fault on a GPU of *node*."""
    kernel = replace(xid79(node), signature="nvidia.xid.31", label="software/cuda_fault")
    made = interruption(
        f"{number}@1", at=NOW - number * DAY_S, node=node, user=f"u{number}", name=f"p{number}", gpus=2048
    )
    return replace(made, diagnosis=diagnosis("software/cuda_fault", kernel))


def test_repetition_is_learned_and_what_became_a_suspicion_still_counts(ledger):
    for number in (1, 2, 3):
        ledger.record(failed_on_a_gpu(number), [])

    [found] = learned(ledger).repeated.values()
    assert (found.node, found.jobs, found.users, found.gpus) == ("n2", 3, 3, 2048)

    fourth = failed_on_a_gpu(4)
    suspected = reconsider(fourth.diagnosis, fourth.attempt, learned(ledger))
    assert suspected.label == "hardware/gpu_xid"
    ledger.record(replace(fourth, diagnosis=suspected), [])
    assert learned(ledger).repeated["n2", "0000:3b:00"].jobs == 4


def test_a_pattern_is_learned_and_what_gave_way_to_it_still_counts(ledger):
    nights = [NOW - day * DAY_S for day in range(1, 13)]
    for number, at in enumerate(nights):
        end = at + 600.0
        made = interruption(
            f"{number}@1", at=end, label="unknown/unknown", name="train", ran_s=20 * 3600.0 - 13 * number
        )
        ledger.record(made, [])
        ledger.record_run(attempt(key=f"b{number}@1", name="backup", start=at, end=at + 3000.0))
        ledger.record_run(attempt(key=f"c{number}@1", name="crawl", start=at + 9.3 * 3600, end=at + 9.4 * 3600))

    found = learned(ledger)
    assert [(each.label, each.seen) for each in found.hours] == [("unknown/unknown", 12)]
    assert [(each.job, each.seen) for each in found.followed] == [("backup", 12)]

    one_more = interruption("99@1", at=NOW - 12 * DAY_S + 700.0, label="unknown/unknown", name="train")
    answer = reconsider(one_more.diagnosis, one_more.attempt, learned(ledger))
    assert answer.label == "resource/shared_fs_io"
    later = interruption("98@1", at=NOW - 13 * DAY_S + 600, label="unknown/unknown", name="train")
    ledger.record(replace(later, diagnosis=answer), [])
    assert [(each.label, each.seen) for each in learned(ledger).hours] == [("unknown/unknown", 13)]


def test_nothing_is_known_until_it_was_learned(ledger):
    for number in (1, 2, 3):
        ledger.record(failed_on_a_gpu(number), [])

    assert lessons(ledger) == Lessons()
    keep(ledger, learned(ledger))
    assert len(lessons(ledger).repeated) == 1


@pytest.mark.parametrize("label", ["software/user_code", "scheduler/time_limit"])
def test_the_jobs_own_doing_and_the_schedulers_make_no_pattern(ledger, label):
    for number in range(12):
        ledger.record(interruption(f"{number}@1", at=NOW - number * DAY_S, label=label), [])
    found = learned(ledger)
    assert (found.hours, found.followed) == ((), ())
