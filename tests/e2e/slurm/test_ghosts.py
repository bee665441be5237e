"""A slurmctld that has forgotten an end and will never find it out by itself: the job does not "run" for ever."""

from __future__ import annotations

import pytest

from tests.e2e.slurm.cluster import Hooks
from tests.e2e.slurm.story import CALM, FULL

SLOW = """#!/bin/sh
for _ in $(seq 300); do [ -e {go} ] && break; sleep 0.1; done
exec {epilog}
"""

KILLED_ONCE = """#!/bin/sh
[ -e {told} ] && exec {epilogslurmctld}
touch {told}
"""


@pytest.mark.timeout(480)
def test_a_job_whose_epilog_ends_after_slurmctld_is_back_runs_again(start_cluster, tmp_path):
    """EpilogSlurmctld dies with its slurmctld; the node's epilog tells a new one, which takes the job for running.

    It takes three minutes, two of them until we are sure.
    """
    tmp_path.chmod(0o755)
    epilog_may_end, ours = tmp_path / "go", Hooks()
    hooks = Hooks(
        epilog=program(tmp_path / "epilog", SLOW.format(go=epilog_may_end, epilog=ours.epilog)),
        epilogslurmctld=program(
            tmp_path / "ended", KILLED_ONCE.format(told=tmp_path / "told", epilogslurmctld=ours.epilogslurmctld)
        ),
    )
    cluster = start_cluster(nodes=1, config=FULL, healthcheck_interval=CALM, hooks=hooks)
    job = cluster.sbatch('while [ ! -e end ]; do sleep 0.1; done; [ "${SLURM_RESTART_COUNT:-0}" != 0 ]')
    cluster.wait_job(job, "RUNNING", 20.0)
    is_saved(cluster, job)

    (cluster.work / "end").touch()
    cluster.wait(lambda: cluster.job(job)["JobState"] != "RUNNING", 20.0, "the job to end")
    cluster.slurmctld.kill()
    cluster.slurmctld.start()
    cluster.wait(cluster.slurmctld.ready, 30.0, "slurmctld to be there")
    assert cluster.job(job)["JobState"] == "RUNNING", "it goes on from what it saved"
    epilog_may_end.touch()

    cluster.wait(lambda: cluster.job(job)["JobState"] == "COMPLETED", 400.0, "the job to run again")
    assert cluster.job(job)["Restarts"] == "1"
    cluster.wait(lambda: "1 interruption" in cluster.wheeltapper("report").stdout, 30.0, "the record of it")


def program(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


def is_saved(cluster, job: str) -> None:
    """Wait until slurmctld has written down that *job* runs, a moment ago: it writes again after five seconds."""
    saved = cluster.layout.folder / "state" / "job_state"
    before = saved.stat().st_mtime
    cluster.scontrol("update", f"JobId={job}", "Comment=known")
    cluster.wait(lambda: saved.stat().st_mtime > before, 30.0, "slurmctld to save its state")
