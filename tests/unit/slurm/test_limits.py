from __future__ import annotations

import logging

import pytest

from wheeltapper.errors import WireError
from wheeltapper_slurm.limits import WHY, Doors, Rate, Rates, Refusals

SMALL = Rate(messages=2, messages_burst=4, bytes=100, bytes_burst=1000)


def admitted(rates, node, *at, size=10):
    """How many of the messages that come at these times are let in."""
    return sum(_is_admitted(rates, node, size, now) for now in at)


def _is_admitted(rates, node, size, now):
    try:
        rates.admit(node, size, now)
    except WireError:
        return False
    return True


def test_a_node_may_send_a_burst_and_then_its_rate():
    rates = Rates(SMALL, SMALL)

    assert admitted(rates, "n1", *[0.0] * 10) == 4
    assert admitted(rates, "n1", *[1.0] * 10) == 2
    assert admitted(rates, "n1", *[100.0] * 10) == 4


def test_bytes_are_bounded_as_messages_are():
    rates = Rates(SMALL, SMALL)

    assert admitted(rates, "n1", 0.0, 0.0, 0.0, size=400) == 2
    assert admitted(rates, "n1", 4.0, 4.0, size=400) == 1


def test_a_node_that_floods_us_takes_nothing_from_the_others():
    rates = Rates(SMALL, Rate(messages=100, messages_burst=6, bytes=1e6, bytes_burst=1e6))

    assert admitted(rates, "n1", *[0.0] * 1000) == 4
    assert admitted(rates, "n2", 0.0, 0.0) == 2, "what was refused of n1 does not count against all"


def test_all_nodes_together_are_bounded():
    rates = Rates(SMALL, Rate(messages=1, messages_burst=3, bytes=1e6, bytes_burst=1e6))

    assert [admitted(rates, f"n{number}", 0.0) for number in range(5)] == [1, 1, 1, 0, 0]


def test_a_clock_that_stands_still_or_goes_back_gives_nothing():
    rates = Rates(SMALL, SMALL)

    assert admitted(rates, "n1", *[50.0] * 4, *range(50, 0, -1)) == 4


def test_one_address_cannot_take_every_place():
    doors = Doors(total=5, per_address=3)
    held = [doors.enter("10.0.0.1") for _ in range(3)]
    for each in held:
        each.__enter__()

    with pytest.raises(WireError) as refused, doors.enter("10.0.0.1"):
        pass
    assert refused.value.kind == "busy"
    with doors.enter("10.0.0.2"), doors.enter("10.0.0.3"), pytest.raises(WireError), doors.enter("10.0.0.4"):
        pass

    held[0].__exit__(None, None, None)
    with doors.enter("10.0.0.1"):
        pass


def test_refusals_are_counted_and_told_once_a_minute(caplog):
    caplog.set_level(logging.WARNING)
    refusals = Refusals()
    for second in range(150):
        refusals.add(
            WireError(f"number {second}", kind="proof" if second % 2 else "protocol"), "10.0.0.9", 1000.0 + second
        )

    assert refusals.counts == {"proof": 75, "protocol": 75}
    assert [record.getMessage() for record in caplog.records] == [
        "refused since the last such line: 1 for protocol; the last, from 10.0.0.9: number 0",
        "refused since the last such line: 30 for proof, 30 for protocol; the last, from 10.0.0.9: number 60",
        "refused since the last such line: 30 for proof, 30 for protocol; the last, from 10.0.0.9: number 120",
    ]


def test_every_kind_of_refusal_has_its_metric():
    """What is refused as a kind that no metric tells would be lost from sight."""
    with pytest.raises(WireError) as rate:
        Rates(SMALL, SMALL).admit("n1", 2000, 0.0)
    with pytest.raises(WireError) as busy, Doors(total=0).enter("10.0.0.1"):
        pass
    assert {WireError("x").kind, rate.value.kind, busy.value.kind} <= set(WHY)
