"""A hundred jobs at once with faults of every family: each is told as what it was, and nothing else is touched."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from tests.e2e.slurm import scenes
from tests.e2e.slurm.story import CALM, FULL, drained, open_attempts
from tests.e2e.slurm.test_kinds import ONCE
from tests.e2e.slurm.test_limits import FLAKY

SEED = 20261130
BUDGET = 2
COMMANDS = ("scontrol", "squeue", "sinfo", "sacct", "sacctmgr")

BUG = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    main()\nValueError: bad shape (3, 4)'
PLANTED = {
    # what it is: how many, what the script does, the label of its one record (None: no record)
    "well": (30, "sleep 0.2", None),
    "gpu memory": (15, f"cat <<'END'\n{scenes.CUDA_OOM}\nEND\nexit 1", "software/oom"),
    "bug": (8, f"cat <<'END'\n{BUG}\nEND\nexit 1", "software/user_code"),
    "fabric": (12, f"{ONCE}\n{FLAKY}", "network/transport"),
    "full disk": (10, "echo 'OSError: [Errno 28] No space left on device' >&2; exit 1", "resource/disk_full"),
    "cancelled": (8, "scancel $SLURM_JOB_ID; sleep 30", "scheduler/cancelled"),
    "silent": (14, f"{ONCE}\nexit 7", "unknown/unknown"),
}  # fmt: skip


@pytest.fixture(scope="module")
def tripwire(tmp_path_factory):
    """A stand-in for Slurm's commands on the nodes, which writes down that it was called."""
    folder = tmp_path_factory.mktemp("tripwire")
    wire = folder / "wire"
    wire.write_text(f'#!/bin/sh\necho "$0 $*" >>{folder}/called\nexit 1\n')
    wire.chmod(0o755)
    return wire


@pytest.fixture(scope="module")
def cluster(start_cluster, tripwire):
    policy = {
        **FULL["policy"],
        "backoff_s": 0.5,
        "annotate": False,
        "budget": {"max_nodes": BUDGET, "max_percent": 100.0},
    }
    return start_cluster(
        nodes=8,
        gpus=0,
        config={**FULL, "policy": policy, "controller": {"gather_deadline_s": 60.0}},
        healthcheck_interval=CALM,
        binds=[(tripwire, Path("/usr/bin") / command) for command in COMMANDS],
    )


class Storm:
    """Submits, keeps the books of what was planted, and looks on while the cluster works it off."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.expected: dict[str, str | None] = {}
        self.broken: list[str] = []

    def submit(self, kinds):
        for kind in kinds:
            _, script, label = PLANTED[kind]
            self.expected[self.cluster.sbatch(script, "--ntasks=1")] = label

    def hold_a_node(self):
        """Submit a job that has a node for itself until it is let go, and return it with the file that lets it."""
        go = self.cluster.work / f"go-{len(self.expected)}"
        job = self.cluster.sbatch(
            f"{ONCE}\nwhile [ ! -e {go} ]; do sleep 0.1; done\nexit 1", "--exclusive", "--nodes=1"
        )
        self.expected[job] = "hardware/gpu_xid"
        self.cluster.wait_job(job, "RUNNING", 60.0)
        return job, go

    def break_it(self, job, go):
        """Let a GPU fall off the bus under the job, and the job end."""
        (bad,) = scenes.nodes_of(self.cluster, job)
        self.broken.append(bad)
        self.cluster.node(bad).xid(79)
        self.cluster.node(bad).wait_verdict("fail")
        go.touch()

    def recorded(self) -> Counter[tuple[str, str]]:
        """How many records there are of each job and label."""
        with closing(sqlite3.connect(f"file:{self.cluster.controller_files.ledger}?mode=ro", uri=True)) as ledger:
            return Counter(ledger.execute("SELECT job, label FROM interruption").fetchall())

    def is_over(self) -> bool:
        assert len(drained(self.cluster)) <= BUDGET
        ended = {"COMPLETED", "FAILED", "CANCELLED"}
        if not {each["JobState"] for each in self.cluster.jobs} <= ended or open_attempts(self.cluster):
            return False
        with closing(sqlite3.connect(f"file:{self.cluster.controller_files.ledger}?mode=ro", uri=True)) as ledger:
            planned = ledger.execute("SELECT 1 FROM act WHERE outcome = 'planned'").fetchone()
        return planned is None and not list((self.cluster.controller_files.spool / "ended").iterdir())


@pytest.mark.timeout(300)
def test_a_hundred_jobs_with_faults_of_every_family_are_told_apart_and_nothing_else_is_touched(cluster, tripwire):
    kinds = [kind for kind, (count, _, _) in PLANTED.items() for _ in range(count)]
    random.Random(SEED).shuffle(kinds)
    storm = Storm(cluster)

    on_a_node = cluster.node("node1").run("scontrol", "ping", check=False)
    assert on_a_node.returncode == 1
    (tripwire.parent / "called").unlink()
    held = [storm.hold_a_node() for _ in range(BUDGET)]
    storm.submit(kinds[:50])
    for each in held:
        storm.break_it(*each)
    storm.submit(kinds[50:])
    cluster.wait(storm.is_over, 150.0, "the storm to be over")
    storm.break_it(*storm.hold_a_node())
    cluster.wait(storm.is_over, 60.0, "the last job to be over")

    assert len(storm.expected) == 100
    planted = Counter({(job, label): 1 for job, label in storm.expected.items() if label is not None})
    assert storm.recorded() == planted
    assert drained(cluster) == set(storm.broken[:BUDGET]), "the budget keeps the third in service"
    assert not (tripwire.parent / "called").exists(), "no hook has called Slurm"
    restarted = {each["JobId"] for each in cluster.jobs if each["Restarts"] != "0"}
    again = {"hardware/gpu_xid", "network/transport", "unknown/unknown"}
    assert restarted == {job for job, label in storm.expected.items() if label in again}
    assert max(int(each["Restarts"]) for each in cluster.jobs) == 1
