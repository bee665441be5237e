"""A second service on the same folders: one acts, and the other goes on where that one was killed."""

from __future__ import annotations

import random

import pytest

from tests.e2e.slurm.kills import Campaign
from tests.e2e.slurm.story import CALM, FULL

SEED = 33


@pytest.fixture(scope="module")
def cluster(start_cluster):
    policy = {**FULL["policy"], "backoff_s": 0.5, "annotate": False}
    cluster = start_cluster(
        nodes=4,
        gpus=1,
        config={**FULL, "policy": policy, "controller": {"gather_deadline_s": 30.0}},
        healthcheck_interval=CALM,
        standby=True,
    )
    cluster.standby.start()
    cluster.wait(lambda: "standing by: " in cluster.standby.tail(), 15.0, "the second service to stand by")
    return cluster


@pytest.mark.timeout(400)
def test_whichever_service_acts_may_be_killed_and_nothing_is_lost_or_done_twice(cluster):
    campaign = Campaign(cluster, random.Random(SEED), targets=(("service",),))

    campaign.wave(6)

    campaign.check()
    assert campaign.kills["service"] == 6
    turns = [
        service.log.read_text().count("mode full, listening on") for service in (cluster.controller, cluster.standby)
    ]
    assert turns == [4, 3], "each is killed in turn, and the other acts"
    assert "this one takes over" in cluster.standby.log.read_text()
