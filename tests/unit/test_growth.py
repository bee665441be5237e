"""Growth of counters over readings, and how long something has been so."""

from __future__ import annotations

import pytest

from wheeltapper.checks.growth import Grown, grown, spell
from wheeltapper.checks.model import Reading


def readings(*values, every_s=60.0):
    return [Reading(1_000.0 + number * every_s, value) for number, value in enumerate(values)]


def growth(*values, **how):
    return list(
        grown(readings(*({"p": {"errors": value}} if value is not None else {} for value in values)), _same, **how)
    )


def _same(value):
    return value


@pytest.mark.parametrize(
    ("values", "delta", "seconds"),
    [
        ((5, 7), 2, 60.0),
        ((5, 7, 7, 10), 5, 180.0),
        ((900, 3), 3, 60.0),
        ((5, 9, 2, 3), 7, 180.0),
        ((None, 4, 6), 2, 60.0),
    ],
    ids=["twice", "often", "reset", "reset between", "a device that came later"],
)
def test_growth_is_the_sum_of_what_was_added(values, delta, seconds):
    assert growth(*values) == [Grown("p", "errors", delta, seconds)]


@pytest.mark.parametrize("values", [(5,), (5, 5), (None, 5)])
def test_what_did_not_grow_is_left_out(values):
    assert growth(*values) == []


def test_a_device_that_is_left_out_while_it_counts_nothing_had_counted_nothing():
    assert growth(None, None, 4, absent_is_zero=True) == [Grown("p", "errors", 4, 120.0)]
    assert growth(4, None, 4, absent_is_zero=True) == []


@pytest.mark.parametrize(("seconds", "hourly"), [(60.0, 120.0), (3_600.0, 120.0), (7_200.0, 60.0)])
def test_a_burst_is_no_rate(seconds, hourly):
    assert Grown("p", "errors", 120, seconds).hourly == hourly


@pytest.mark.parametrize(
    ("values", "seconds"),
    [((1, 1, 1), 120.0), ((1, 0, 1, 1), 60.0), ((0, 0, 1), 0.0), ((1, 1, 0), None)],
)
def test_a_spell_reaches_back_to_where_it_was_otherwise(values, seconds):
    assert spell(readings(*values), bool) == seconds
