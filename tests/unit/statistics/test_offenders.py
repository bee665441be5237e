from __future__ import annotations

import random

from wheeltapper.statistics.lemons import DAY_S, Fault, after_repair, foresight, lemons
from wheeltapper.statistics.repetition import Fault as Seen
from wheeltapper.statistics.repetition import repeated


def seen(number, node="n1", gpu="0000:3b:00", user=None):
    return Seen(node, gpu, str(number), f"program{number}", user or f"user{number}")


def test_the_same_fault_on_one_gpu_over_jobs_and_users_becomes_a_suspicion_with_its_numbers():
    elsewhere = [seen(100 + number, f"m{number}") for number in range(5)]

    [found] = repeated([seen(1), seen(2), seen(3), *elsewhere], gpus=1024)

    assert (found.node, found.gpu, found.jobs, found.users, found.whole) == ("n1", "0000:3b:00", 3, 3, 8)
    assert found.probability < 1e-3
    assert "3 different jobs of 3 users, of 8 on 1024 GPUs" in found.sentence


def test_one_users_program_or_two_jobs_are_not_enough():
    assert repeated([seen(1, user="ada"), seen(2, user="ada"), seen(3, user="ada")], gpus=1024) == []
    assert repeated([seen(1), seen(2)], gpus=1024) == []


def test_a_program_that_fails_on_different_nodes_speaks_against_no_gpu():
    bug = [Seen(node, "0000:3b:00", f"{number}", "train", "ada") for number, node in enumerate(["n1", "n2", "n3"])]
    assert repeated([*bug, seen(8), seen(9)], gpus=1024) == []


def test_in_a_small_cluster_the_same_is_chance():
    faults = [seen(number, f"n{number % 4}") for number in range(12)]
    assert repeated(faults, gpus=4) == []


def test_healthy_gpus_are_suspected_in_less_than_one_record_of_a_hundred():
    chance = random.Random(3)
    alarms = 0
    for _ in range(300):
        faults = [
            Seen(f"n{chance.randrange(32)}", f"gpu{chance.randrange(8)}", str(number), f"p{number}", f"u{number % 20}")
            for number in range(chance.randrange(200))
        ]
        alarms += bool(repeated(faults, gpus=256))
    assert alarms <= 3


def test_a_lemon_has_failed_twice_of_late_and_the_list_stays_short():
    faults = [Fault("bad", day * DAY_S) for day in (80, 90)]
    faults += [Fault("once", 95 * DAY_S), Fault("long-ago", 1 * DAY_S), Fault("long-ago", 2 * DAY_S)]

    [found] = lemons(faults, nodes=100, now=100 * DAY_S)

    assert (found.node, found.faults) == ("bad", 2)
    assert lemons([Fault(f"n{each % 30}", 99 * DAY_S) for each in range(90)], nodes=100, now=100 * DAY_S)[5:] == []
    assert lemons(faults, nodes=10, now=100 * DAY_S) == []


def test_what_has_not_happened_yet_changes_no_flag():
    chance = random.Random(4)
    past = [Fault(f"n{chance.randrange(40)}", chance.uniform(0, 100) * DAY_S) for _ in range(60)]
    future = [Fault(f"n{chance.randrange(40)}", chance.uniform(100, 200) * DAY_S) for _ in range(60)]

    now = 100 * DAY_S
    assert lemons(past, 40, now) == lemons([*past, *future], 40, now)
    known = foresight(past, 40, 30 * DAY_S, now)
    told = foresight([*past, *future], 40, 30 * DAY_S, now)
    assert (known.later, known.covered) == (told.later, told.covered)


def test_foresight_counts_what_came_after_the_flag():
    faults = [Fault("bad", day * DAY_S) for day in range(40, 80, 5)] + [Fault("n2", 60.5 * DAY_S)]

    found = foresight(faults, 100, 50 * DAY_S, 100 * DAY_S)

    assert (found.later, found.covered) == (7, 6)
    assert found.flagged == found.again == 1
    assert found.precision.value == 1.0


def test_what_follows_a_repair_is_set_beside_what_any_node_does():
    faults = [Fault("n1", 0.0, 1 * DAY_S), Fault("n1", 1.5 * DAY_S, 2 * DAY_S), Fault("n2", 5 * DAY_S, 6 * DAY_S)]

    [day] = after_repair(faults, 100, 0.0, 100 * DAY_S, [1.0])

    assert (day.repairs, day.again) == (3, 1)
    assert 0.0002 < day.base < 0.0004
