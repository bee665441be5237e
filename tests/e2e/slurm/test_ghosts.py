"""A slurmctld that has forgotten an end and will never find it out by itself: no job "runs" for ever."""

from __future__ import annotations

import pytest

from tests.e2e.slurm.cluster import Hooks
from tests.e2e.slurm.story import CALM, FULL, explain

SLOW = """#!/bin/sh
{epilog}
status=$?
for _ in $(seq 300); do [ -e {go} ] && break; sleep 0.1; done
exit $status
"""

FIRST_IS_LOST = """#!/bin/sh
[ -e {told} ] && exec {epilogslurmctld}
touch {told}
"""

BUG = """\
cat <<'END'
Traceback (most recent call last):
  File "/home/ada/train.py", line 7, in <module>
ValueError: bad shape (3, 4)
END
exit 1
"""


@pytest.mark.timeout(480)
def test_a_job_whose_epilog_ends_after_slurmctld_is_back_does_not_run_for_ever(start_cluster, tmp_path):
    """The epilog's word makes a new slurmctld, which takes the job for running, miss it nowhere.

    One job's EpilogSlurmctld dies with its slurmctld: it runs again. The other's end is on record, and needs no
    requeue. It takes three minutes, two of them until we are sure.
    """
    tmp_path.chmod(0o755)
    epilogs_may_end, ours = tmp_path / "go", Hooks()
    hooks = Hooks(
        epilog=program(tmp_path / "epilog", SLOW.format(go=epilogs_may_end, epilog=ours.epilog)),
        epilogslurmctld=program(
            tmp_path / "ended", FIRST_IS_LOST.format(told=tmp_path / "told", epilogslurmctld=ours.epilogslurmctld)
        ),
    )
    cluster = start_cluster(nodes=2, config=FULL, healthcheck_interval=CALM, hooks=hooks)
    again = '[ "${SLURM_RESTART_COUNT:-0}" = 0 ] || exit 0'
    lost = cluster.sbatch(f"{again}; while [ ! -e lost ]; do sleep 0.1; done; exit 1", "--exclusive")
    known = cluster.sbatch(f"while [ ! -e known ]; do sleep 0.1; done; {BUG}", "--exclusive")
    for job in (lost, known):
        cluster.wait_job(job, "RUNNING", 20.0)
    is_saved(cluster, known)

    (cluster.work / "lost").touch()
    cluster.wait((tmp_path / "told").exists, 20.0, "the first job to end")
    (cluster.work / "known").touch()
    cluster.wait(lambda: explain(cluster, known), 20.0, "the second job to be explained")
    cluster.slurmctld.kill()
    cluster.slurmctld.start()
    cluster.wait(cluster.slurmctld.ready, 30.0, "slurmctld to be there")
    for job in (lost, known):
        assert cluster.job(job)["JobState"] == "RUNNING", "it goes on from what it saved"
    epilogs_may_end.touch()

    cluster.wait(lambda: cluster.job(lost)["JobState"] == "COMPLETED", 400.0, "the first job to run again")
    assert cluster.job(lost)["Restarts"] == "1"
    cluster.wait(lambda: explain(cluster, lost), 30.0, "the record of it")
    assert cluster.wait_job(known, "CANCELLED", 60.0)["Restarts"] == "0"
    assert (len(explain(cluster, lost)), len(explain(cluster, known))) == (1, 1)


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
