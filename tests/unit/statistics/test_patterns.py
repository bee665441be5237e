from __future__ import annotations

import random

import pytest

from wheeltapper.statistics.patterns import (
    DAY_S,
    HALF_HOURS,
    WINDOW,
    co_starts,
    exposure_of,
    recurring_hours,
)

DAYS = 60
LABELS = ("network/nccl_timeout", "unknown/unknown", "hardware/gpu_xid")
JOBS = ("nightly-backup", "eval", "export", "crawl")


def utc(at):
    return int(at // DAY_S), int(at % DAY_S // 1800)


def history(chance, events=60, starts=40):
    """A record without any pattern: everything comes when it likes, and some things come in bursts."""
    span = DAYS * DAY_S
    found = {label: [(chance.uniform(0, span), "train") for _ in range(chance.randrange(events))] for label in LABELS}
    burst = chance.uniform(0, span)
    found[LABELS[0]] += [(burst + chance.uniform(0, 600), "train") for _ in range(chance.randrange(20))]
    return found, {job: [chance.uniform(0, span) for _ in range(starts)] for job in JOBS}


def moments(events):
    return {label: [at for at, _ in found] for label, found in events.items()}


def test_a_thousand_records_without_a_pattern_give_at_most_one_percent_of_false_alarms():
    chance = random.Random(5)
    alarms = 0
    for _ in range(1000):
        events, starts = history(chance)
        alarms += bool(recurring_hours(moments(events), utc) or co_starts(events, starts))

    assert alarms <= 10


def test_checkpoints_that_meet_a_backup_at_two_in_the_morning_are_found():
    chance = random.Random(6)
    events, _ = history(chance)
    planted = [(day * DAY_S + 2.1 * 3600 + chance.uniform(0, 1500), "train") for day in range(0, DAYS, 4)]
    events["unknown/unknown"] += planted

    [found] = recurring_hours(moments(events), utc)

    assert found.label == "unknown/unknown"
    assert found.hour in {1.5, 2.0}, "the hour of the backup, give or take the half hour of a window"
    assert found.seen >= len(planted)
    assert f"{found.seen} of {found.whole} interruptions by unknown/unknown came in the hour from 0" in found.sentence


def test_a_window_goes_round_midnight():
    late = [day * DAY_S + (23.7 * 3600 if day % 2 else 0.2 * 3600) for day in range(16)]
    [found] = recurring_hours({"unknown/unknown": late}, utc)
    assert (found.hour, found.seen) == (23.5, 16)


def test_interruptions_that_follow_another_jobs_start_are_found_and_the_job_is_named():
    chance = random.Random(7)
    events, starts = history(chance)
    starts["export"] = sorted(chance.uniform(0, DAYS * DAY_S) for _ in range(60))
    events["network/nccl_timeout"] += [(at + chance.uniform(30, 800), "train") for at in starts["export"][::5]]

    [found] = co_starts(events, starts)

    assert (found.label, found.job) == ("network/nccl_timeout", "export")
    assert found.seen >= 12
    assert "after a start of job 'export'" in found.sentence


def test_one_bad_night_is_no_pattern():
    night = [DAY_S * 3 + 2 * 3600 + minute * 60 for minute in range(40)]
    assert recurring_hours({"unknown/unknown": night}, utc) == []
    assert co_starts({"unknown/unknown": [(at, "train") for at in night]}, {"backup": [night[0] - 10] * 6}) == []


def test_hours_in_which_everything_runs_accuse_nobody():
    """Jobs run from nine to noon only, so that is when they fail; the exposure says so."""
    chance = random.Random(8)
    spans = [(day * DAY_S + 9 * 3600, day * DAY_S + 12 * 3600) for day in range(DAYS)]
    failed = {"unknown/unknown": [chance.uniform(*chance.choice(spans)) for _ in range(80)]}

    assert recurring_hours(failed, utc, exposure_of(spans, utc)) == []
    assert recurring_hours(failed, utc) != [], "without the exposure it would look like a pattern"


def test_a_job_is_not_accused_of_its_own_interruptions():
    starts = {"train": [day * DAY_S for day in range(DAYS)]}
    events = {"unknown/unknown": [(at + 60, "train") for at in starts["train"]]}
    assert co_starts(events, starts) == []


@pytest.mark.parametrize(
    ("begin", "end", "hours"), [(0.0, 2 * DAY_S, 48.0), (0.25 * 3600, 1.75 * 3600, 1.5), (23 * 3600, DAY_S + 3600, 2.0)]
)
def test_the_exposure_holds_all_that_ran(begin, end, hours):
    found = exposure_of([(begin, end)], utc)
    assert len(found) == HALF_HOURS == 24 * WINDOW
    assert sum(found) == pytest.approx(hours * 3600)
