"""``wheeltapper slurm check`` against a real slurmctld."""

from __future__ import annotations

import json

from tests.e2e.slurm.cluster import QUICK_SCHEDULING


def test_a_cluster_is_checked_before_it_is_put_to_work(start_cluster):
    cluster = start_cluster(nodes=1, accounting=False)

    said = cluster.wheeltapper("slurm", "check")

    assert said.returncode == 0, said.stdout + said.stderr
    assert "danger" not in said.stdout.replace("0 dangerous", "")
    assert "hint    PrologEpilogTimeout: " in said.stdout

    cluster.reconfigure(SchedulerParameters=QUICK_SCHEDULING, PrologFlags=None, MessageTimeout="5")
    cluster.controller.stop()

    found = cluster.wheeltapper("slurm", "check", "--json")
    assert found.returncode == 1
    dangers = {each["about"] for each in json.loads(found.stdout) if each["weight"] == "danger"}
    assert dangers == {"controller service", "SchedulerParameters", "PrologFlags", "MessageTimeout"}

    cluster.slurmctld.stop()
    away = cluster.wheeltapper("slurm", "check")
    assert (away.returncode, away.stdout) == (2, "")
    assert "wheeltapper slurm check: " in away.stderr
