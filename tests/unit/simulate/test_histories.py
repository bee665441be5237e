"""The order of nodes on histories that are not the public trace: it helps where nodes differ, and harms nowhere."""

from __future__ import annotations

import pytest

from tests.unit.simulate.histories import DAYS, KINDS, NODES, PER_NODE_DAY, made_up
from wheeltapper.config import PolicySection
from wheeltapper.simulate.model import STRATEGIES, Settings
from wheeltapper.simulate.run import replay

CAREFUL, ANY = STRATEGIES[:2]
SEEDS = 4


def ettr(kind, strategy):
    """Return the mean over several histories of this *kind*, of a job on four nodes of five."""
    runs = [
        replay(made_up(kind, seed), strategy, Settings(NODES * 4 // 5), PolicySection(), seed) for seed in range(SEEDS)
    ]
    return sum(each.ettr for each in runs) / SEEDS


@pytest.mark.parametrize("kind", KINDS, ids=lambda each: each.name)
def test_the_rate_is_what_it_is_said_to_be(kind):
    made = [len(made_up(kind, seed).faults) for seed in range(20)]
    expected = PER_NODE_DAY * DAYS * NODES / (1 - kind.relapses)
    assert sum(made) / len(made) == pytest.approx(expected, rel=0.15)


@pytest.mark.parametrize("kind", KINDS, ids=lambda each: each.name)
def test_to_avoid_what_failed_last_harms_nowhere_and_helps_where_nodes_differ_or_relapse(kind):
    careful, scheduler = ettr(kind, CAREFUL), ettr(kind, ANY)

    assert careful > scheduler - 0.001
    if kind.shape is not None or kind.relapses:
        assert careful > scheduler
