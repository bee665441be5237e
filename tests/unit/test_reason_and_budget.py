from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.make import xid79
from wheeltapper.config import BudgetSection
from wheeltapper.evidence import Disposition
from wheeltapper.policy.budget import Share, limit, refusal
from wheeltapper.policy.reason import MAX_CHARS, TO_DO, format_reason, is_ours, parse_reason


def test_a_reason_says_what_where_whose_when_and_what_to_do():
    reason = format_reason(xid79(at=1_795_953_663.0), "1234", now=0.0)

    assert reason == "wheeltapper: hardware/gpu_xid xid=79 gpu=0000:3b:00 job=1234 at=2026-11-29T12:01:03Z: reboot"


@pytest.mark.parametrize("disposition", Disposition)
@pytest.mark.parametrize("job", ["1234", "1234_7", None])
@pytest.mark.parametrize("gpu", ["0000:3b:00", None])
def test_a_reason_can_be_read_back(disposition, job, gpu):
    finding = xid79()
    finding = replace(finding, disposition=disposition, evidence=replace(finding.evidence, gpu=gpu))

    back = parse_reason(format_reason(finding, job, now=0.0))

    assert back is not None
    assert (back.label, back.detail, back.gpu, back.job, back.to_do) == (
        "hardware/gpu_xid",
        "xid=79",
        gpu,
        job,
        TO_DO[disposition],
    )


@given(detail=st.text(max_size=400))
def test_a_reason_is_never_too_long_and_always_ours(detail):
    reason = format_reason(replace(xid79(), detail=detail), "1", now=0.0)

    assert len(reason) <= MAX_CHARS
    assert is_ours(reason)
    assert reason.endswith(": reboot")


@pytest.mark.parametrize("foreign", ["admin: swap PSU", "Prolog error", "", "wheeltapper is great", "Not responding"])
def test_other_peoples_reasons_are_not_ours(foreign):
    assert not is_ours(foreign)
    assert parse_reason(foreign) is None


@pytest.mark.parametrize(
    ("size", "budget", "most"),
    [
        (4, BudgetSection(), 1),
        (1, BudgetSection(), 1),
        (100, BudgetSection(), 10),
        (109, BudgetSection(), 10),
        (100, BudgetSection(max_nodes=3), 3),
        (100, BudgetSection(max_percent=100.0), 100),
    ],
)
def test_how_many_nodes_may_be_out(size, budget, most):
    assert limit(size, budget) == most


def test_a_node_of_two_partitions_needs_room_in_both():
    shares = {"big": Share(100, 0), "small": Share(4, 1)}

    assert refusal(shares, BudgetSection()) == "1 of 4 nodes of small are out already and the budget is 1"
    assert refusal({"big": Share(100, 9)}, BudgetSection()) is None
