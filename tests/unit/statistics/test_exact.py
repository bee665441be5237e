from __future__ import annotations

from math import comb, exp, factorial

import pytest
from hypothesis import given
from hypothesis import strategies as some

from wheeltapper.statistics.exact import (
    binomial_at_least,
    gamma_upper,
    poisson_at_most,
    poisson_interval,
    share_interval,
)


@pytest.mark.parametrize(
    ("count", "low", "high"),
    [
        (0, 0.0, 3.689),
        (1, 0.0253, 5.572),
        (5, 1.623, 11.668),
        (10, 4.795, 18.390),
        (20, 12.217, 30.888),
        (100, 81.364, 121.627),
    ],
)
def test_poisson_limits_are_those_of_the_published_table(count, low, high):
    """Exact 95 % limits as tables of the Poisson distribution print them (Garwood 1936; Ulm 1990)."""
    assert poisson_interval(count) == (pytest.approx(low, abs=2e-3), pytest.approx(high, abs=2e-3))


@pytest.mark.parametrize(("degrees", "quantile"), [(1, 3.841), (2, 5.991), (10, 18.307), (30, 43.773), (100, 124.342)])
def test_the_gamma_function_gives_the_chi_square_table(degrees, quantile):
    assert gamma_upper(degrees / 2, quantile / 2) == pytest.approx(0.05, abs=2e-5)


@given(some.integers(0, 60), some.floats(0.01, 80))
def test_a_poisson_tail_is_the_sum_of_its_terms(count, mean):
    terms = sum(exp(-mean) * mean**each / factorial(each) for each in range(count + 1))
    assert poisson_at_most(count, mean) == pytest.approx(terms, abs=1e-9)


@given(some.integers(0, 40), some.integers(0, 40), some.floats(0.001, 0.999))
def test_a_binomial_tail_is_the_sum_of_its_terms(count, trials, share):
    terms = sum(comb(trials, each) * share**each * (1 - share) ** (trials - each) for each in range(count, trials + 1))
    assert binomial_at_least(count, trials, share) == pytest.approx(terms, abs=1e-9)


def test_limits_of_a_large_count_are_found():
    low, high = poisson_interval(1_000_000)
    assert (low, high) == (pytest.approx(998_041, abs=2), pytest.approx(1_001_962, abs=2))


def test_limits_of_a_share_are_those_of_clopper_and_pearson():
    found = share_interval(10, 100)
    assert (found.low, found.high) == (pytest.approx(0.0490, abs=1e-4), pytest.approx(0.1762, abs=1e-4))
    assert share_interval(0, 0).value is None
    assert share_interval(3, 3).high == 1.0
    assert share_interval(0, 10).high == pytest.approx(0.3085, abs=1e-4)
