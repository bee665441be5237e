"""Interruptions for the tests of the ledger."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.make import attempt, diagnosis, xid79
from wheeltapper.config import Mode
from wheeltapper.ledger.model import Interruption
from wheeltapper.policy.model import Decision, JobAction, Payer


def interruption(
    key: str = "12@900",
    *,
    label: str = "hardware/gpu_xid",
    at: float = 1200.0,
    ran_s: float = 5400.0,
    node: str = "n2",
    **changes: Any,
) -> Interruption:
    """An attempt of 16 GPUs that ended at *at* after *ran_s*, with *node* suspected."""
    job = JobAction(label.startswith("hardware"), "because", payer=Payer.INFRASTRUCTURE)
    tried = attempt(key=key, job=key.partition("@")[0], start=at - ran_s, end=at, gpus=16, partition="gpu")
    return Interruption(
        replace(tried, **changes), diagnosis(label, xid79(node), nodes=(node,)), Decision(job), Mode.FULL, at
    )
