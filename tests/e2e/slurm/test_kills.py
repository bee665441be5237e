"""kill -9 of the controller service and of slurmctld at random moments: nothing is lost, nothing is done twice.

``make test-kills`` plays 200 interruptions (COUNT=...), and says how long it took; SEED=... plays the same dice again.
"""

from __future__ import annotations

import os
import random
import secrets
import time

import pytest

from tests.e2e.slurm.kills import WAVE, Campaign
from tests.e2e.slurm.story import CALM, FULL

COUNT = int(os.environ.get("WHEELTAPPER_KILLS", "12"))
SEED = int(os.environ.get("WHEELTAPPER_KILLS_SEED") or 0) or secrets.randbelow(10**6) + 1


@pytest.fixture(scope="module")
def cluster(start_cluster):
    # A job that is moved off its broken node has no time to write down that it failed.
    policy = {**FULL["policy"], "backoff_s": 0.5, "annotate": False, "move_after_s": 0.0}
    return start_cluster(
        nodes=8,
        gpus=1,
        # As long as it is by default: a node finds a service that is back after half a minute at the latest.
        config={**FULL, "policy": policy, "controller": {"gather_deadline_s": 60.0}},
        healthcheck_interval=CALM,
        # slurmctld forgets no job that the test has yet to ask for.
        conf={"MinJobAge": "7200"},
    )


@pytest.mark.timeout(7200)
def test_no_requeue_is_lost_or_doubled_and_no_drain_is_an_orphan(cluster):
    print(f"\nseed {SEED}, {COUNT} interruptions")
    began = time.monotonic()
    campaign = Campaign(cluster, random.Random(SEED))
    for first in range(0, COUNT, WAVE):
        campaign.wave(min(WAVE, COUNT - first))
        print(f"{len(campaign.planted)} interruptions, {dict(campaign.kills)} killed, {time.monotonic() - began:.0f} s")
    campaign.check()
