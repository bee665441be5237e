"""Interruptions in waves, with the controller service and slurmctld killed at random moments, and what must hold after.

What really happened is written by the jobs themselves, one line for each attempt that failed or completed: slurmctld
forgets up to five seconds when it is killed, and its word alone would not tell a lost requeue from one that never was.
"""

from __future__ import annotations

import json
import random
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.slurm import scenes
from tests.e2e.slurm.cluster import Cluster
from tests.e2e.slurm.cluster.daemon import Daemon
from tests.e2e.slurm.story import drained, open_attempts, repair
from tests.e2e.slurm.test_limits import FLAKY

WAVE = 12
"""Interruptions at a time: two of them have a node of two processors to themselves, the rest share six nodes."""

BROKEN = 2
"""Nodes that break in one wave."""

BUG = 'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    main()\nValueError: bad shape (3, 4)'

ENDS = {
    "hardware": ("exit 1", "hardware/gpu_xid"),
    "transient": (FLAKY, "network/transport"),
    "bug": (f"cat <<'END'\n{BUG}\nEND\nexit 1", "software/user_code"),
}
"""What a kind of job does at its end, and the label of that."""

Targets = tuple[tuple[str, ...], ...]
TARGETS: Targets = (("service",), ("slurmctld",), ("service", "slurmctld"))

ASK_S = 10.0
"""A job that has been let go ends at once; one that slurmctld takes for running for so long is gone."""

CANCELLED = "job {job}: by our record it has ended, by slurmctld it runs: it is cancelled"
REQUEUED = (
    "job {job}: by our record it has ended, by slurmctld it runs: it is requeued",
    "job {job}: its nodes say that it is over, slurmctld that it runs: it is requeued",
)
"""What a service says of a job whose end slurmctld has forgotten for good."""

ENDED = frozenset({"COMPLETED", "FAILED", "CANCELLED", "NODE_FAIL", "TIMEOUT"})


@dataclass(slots=True)
class Planted:
    """One job: of which kind it is, what lets it go on, and on which node it was when that broke."""

    job: str
    kind: str
    go: str
    node: str = ""


@dataclass(slots=True)
class Campaign:
    """Plays waves of interruptions on *cluster*; *dice* chooses kinds, moments and victims among *targets*."""

    cluster: Cluster
    dice: random.Random
    planted: list[Planted] = field(default_factory=list)
    kills: Counter[str] = field(default_factory=Counter)
    targets: Targets = TARGETS
    asked_at: float = 0.0

    def wave(self, interruptions: int) -> None:
        """Play a wave, wait until nothing is left to do, hold the nodes to what was planted, and mend them."""
        jobs = self._submit(interruptions)
        self._is_saved()
        for each in jobs:
            if each.kind == "hardware":
                (each.node,) = scenes.nodes_of(self.cluster, each.job)
                self.cluster.node(each.node).xid(79)
                self.cluster.node(each.node).wait_verdict("fail")
        self._end(jobs)
        self.cluster.wait(lambda: self._is_over(jobs), 300.0, "the wave to be over")
        self._nodes_are_as_planted(jobs)
        repair(self.cluster)

    def _submit(self, interruptions: int) -> list[Planted]:
        broken = min(BROKEN, interruptions)
        kinds = ["hardware"] * broken + self.dice.choices(["transient", "bug"], k=interruptions - broken)
        jobs = [self._job(kind) for kind in kinds]
        for each in jobs:
            self.cluster.wait_job(each.job, "RUNNING", 60.0)
        self.planted += jobs
        return jobs

    def _job(self, kind: str) -> Planted:
        go = f"{self.cluster.work}/go-{len(self.planted)}-{self.dice.getrandbits(32):08x}"
        books = f"{self.cluster.work}/books-$SLURM_JOB_ID"
        complete = f'[ "${{SLURM_RESTART_COUNT:-0}}" = 0 ] || {{ echo completed >>{books}; exit 0; }}\n'
        once = "" if kind == "bug" else complete
        script = f"{once}while [ ! -e {go} ]; do sleep 0.1; done\necho failed >>{books}\n{ENDS[kind][0]}"
        alone = ("--exclusive", "--nodes=1") if kind == "hardware" else ("--ntasks=1",)
        return Planted(self.cluster.sbatch(script, *alone), kind, go)

    def _is_saved(self) -> None:
        """Wait until slurmctld has written down what it knows: what it forgets otherwise is not ours to keep."""
        saved = self.cluster.layout.folder / "state" / "job_state"
        now = time.time()
        self.cluster.scontrol("update", f"JobId={self.planted[-1].job}", "Comment=known")
        self.cluster.wait(lambda: saved.exists() and saved.stat().st_mtime > now, 30.0, "slurmctld to save its state")

    def _end(self, jobs: list[Planted]) -> None:
        """End the jobs one after another, and kill services at a random time after each end."""
        self.dice.shuffle(jobs)
        at, events = 0.0, []
        for each in jobs:
            at += self.dice.uniform(0.0, 1.0)
            events.append((at, each))
            events.append((at + self.dice.uniform(0.0, 5.0), self.dice.choice(self.targets)))
        began = self.asked_at = time.monotonic()
        for due, what in sorted(events, key=lambda event: event[0]):
            self._pause(began + due - time.monotonic())
            if isinstance(what, Planted):
                Path(what.go).touch()
            else:
                self._kill(what)

    def _kill(self, names: tuple[str, ...]) -> None:
        victims = [self.cluster.slurmctld if name == "slurmctld" else self._acting() for name in names]
        for victim in victims:
            victim.kill()
        self.kills.update(names)
        self._pause(self.dice.uniform(0.0, 1.0))
        if "service" in names and self._services():
            self.cluster.wait(lambda: self._acts(self._acting()), 30.0, "the other service to take over")
        for victim in reversed(victims):
            victim.start()
        self.cluster.wait(self.cluster.slurmctld.ready, 30.0, "slurmctld to be there")
        self.cluster.wait(lambda: self._acts(self._acting()), 30.0, "a service to act")

    def _acting(self) -> Daemon:
        """The service that acts; while none does, one that is about to."""
        running = self._services()
        return next(filter(self._acts, running), running[0])

    def _services(self) -> list[Daemon]:
        return [each for each in (self.cluster.controller, self.cluster.standby) if each.running]

    @staticmethod
    def _acts(service: Daemon) -> bool:
        return service.running and service.ready()

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        self.cluster.wait(lambda: time.monotonic() >= until, seconds + 5.0, "a moment to come")

    def _is_over(self, jobs: list[Planted]) -> bool:
        numbers = {each.job for each in jobs}
        now = [each for each in self.cluster.jobs if each["JobId"] in numbers]
        self._ask({each["NodeList"] for each in now if each["JobState"] == "RUNNING"})
        if not {each["JobState"] for each in now} <= ENDED or open_attempts(self.cluster):
            return False
        return not self._rows("SELECT 1 FROM act WHERE outcome = 'planned'") and not list(
            (self.cluster.controller_files.spool / "ended").glob("[!.]*")
        )

    def _ask(self, names: set[str]) -> None:
        """Let slurmctld hear what runs on the nodes *names*: it takes jobs for running there whose end it has forgotten.

        By itself it asks at every twentieth ping (MAX_REG_FREQUENCY in its ping_nodes.c), half an hour as a rule. A
        slurmd says it at its start. (`scontrol reconfigure` would do as well, and kill EpilogSlurmctld where it runs.)
        """
        if not names or time.monotonic() - self.asked_at <= ASK_S:
            return
        daemons = [self.cluster.node(name).slurmd for name in sorted(names)]
        for each in daemons:
            each.stop()
            each.start()
        for each in daemons:
            self.cluster.wait(each.ready, 30.0, f"{each.name} to be back")
        self.asked_at = time.monotonic()

    def _nodes_are_as_planted(self, jobs: list[Planted]) -> None:
        broken = {each.node for each in jobs if each.kind == "hardware"}
        # A slurmctld that was killed may send a job to a node where it still runs, and takes that node out by itself.
        out = {node for node in drained(self.cluster) if self.cluster.node_state(node)[1] != "Duplicate jobid"}
        assert out == broken, f"out are {sorted(out)}, broken {sorted(broken)}"
        for node in broken:
            standing = self._rows("SELECT body FROM quarantine WHERE node = ? ORDER BY at DESC, id DESC LIMIT 1", node)
            assert standing, f"{node} is out, and the ledger does not say so"
            reason = self.cluster.node_state(node)[1]
            assert reason.startswith("wheeltapper: hardware/gpu_xid"), reason
            assert reason in standing[0][0], f"{node} is out for {reason!r}, and the ledger says {standing[0][0]}"

    def _rows(self, query: str, *values: Any) -> list[Any]:
        with closing(sqlite3.connect(f"file:{self.cluster.controller_files.ledger}?mode=ro", uri=True)) as ledger:
            return ledger.execute(query, values).fetchall()

    def check(self) -> None:
        """Hold the record of all waves to what the jobs have written themselves."""
        kinds = {each.job: each.kind for each in self.planted}
        told: dict[str, list[Any]] = {job: [] for job in kinds}
        for (body,) in self._rows("SELECT body FROM body"):
            record = json.loads(body)
            # A slurmctld that has forgotten a drain may send a job to that node; there our prolog keeps it off.
            if record["attempt"]["ending"] != "launch_failed":
                told[record["attempt"]["job"]].append(record)
        wrong = [
            f"job {job}, {kinds[job]}: {complaint}"
            for job, records in told.items()
            for complaint in self._wrongly_told(
                kinds[job], self._books(job), records, self._kept_off(job), self._requeued_by_slurm(job)
            )
        ]
        now = {each["JobId"]: each for each in self.cluster.jobs}
        for each in self.planted:
            wrong += self._wrongly_ended(each, now[each.job])
        # All of them: a run takes half an hour.
        assert not wrong, "\n".join(wrong)

    def _wrongly_ended(self, planted: Planted, now: dict[str, Any]) -> Iterator[str]:
        name = f"job {planted.job}, {planted.kind}"
        right = {"FAILED" if planted.kind == "bug" else "COMPLETED"}
        if self._said(CANCELLED.format(job=planted.job)):
            right.add("CANCELLED")
        if now["JobState"] not in right:
            yield f"{name}: it is {now['JobState']}"
        decided, restarts = int(planted.kind != "bug"), int(now["Restarts"])
        others = self._requeued_by_slurm(planted.job) + self._kept_off(planted.job)
        if not decided <= restarts <= decided + others:
            yield f"{name}: {restarts} restarts, {others} for other causes"

    def _requeued_by_slurm(self, job: str) -> int:
        """How often *job* was requeued since slurmctld had forgotten its end: by slurmctld itself, or in its place.

        It found the job missing, or sent it to a node where it had not quite ended, which refuses a second copy.
        """
        missing = self.cluster.slurmctld.log.read_text().count(f"requeue JobId={job} due to node failure")
        twice = f"Job {job} already running, do not launch second copy"
        ours = sum(self._said(each.format(job=job)) for each in REQUEUED)
        return missing + ours + sum(node.slurmd.log.read_text().count(twice) for node in self.cluster.nodes.values())

    def _said(self, words: str) -> int:
        """How often one of the services has said *words*."""
        logs = (each.log for each in (self.cluster.controller, self.cluster.standby) if each.log.exists())
        return sum(log.read_text().count(words) for log in logs)

    def _kept_off(self, job: str) -> int:
        """How often a prolog kept *job* off a node: slurmctld, which had forgotten the drain, had sent it there."""
        # 26.05 calls the job by its SLUID as well.
        said = re.compile(rf"(?:\[job {job}\]|JobId={job} SLUID=\S+) prolog failed")
        return sum(len(said.findall(node.slurmd.log.read_text())) for node in self.cluster.nodes.values())

    @staticmethod
    def _wrongly_told(
        kind: str, books: Counter[str], records: list[Any], kept_off: int, forgotten: int
    ) -> Iterator[str]:
        """Yield what is wrong with the *records* of one job, held to its *books*.

        slurmctld may forget even that the job has completed, and run it again with the count of restarts that it had.
        Of such an attempt there is an exit code of 0 and a job that runs: nobody can tell it from a requeue of Slurm's.
        Nor can a service tell a start that a prolog has refused, where it was away when that was said. A failure that
        slurmctld has *forgotten* is told by its own requeue of a job that it misses on the node, and by nothing else.
        """
        requeued = [each for each in records if each["attempt"]["ending"] == "requeued"]
        again = [each for each in requeued if each["attempt"]["exit_code"] == 0]
        labels = {ENDS[kind][1], "hardware/gpu_xid"}
        own = len(records) - len(again)
        if len(again) > max(0, books["completed"] - 1) + kept_off + forgotten:
            yield (
                f"{len(again)} requeues of Slurm's, for {kept_off} refused starts, {forgotten} forgotten ends and {books}:"
                f" {records}"
            )
        if any(each["decision"]["job"]["requeue"] for each in again):
            yield f"Slurm's own requeue is followed by one of ours: {again}"
        if not own <= books["failed"] <= own + min(len(again), forgotten):
            yield f"{own} records beside {len(again)} requeues of Slurm's, {forgotten} forgotten ends, {books}: {records}"
        if not all(each["diagnosis"]["label"] in labels for each in records if each not in again):
            yield f"another label than {labels}: {records}"

    def _books(self, job: str) -> Counter[str]:
        books = self.cluster.work / f"books-{job}"
        return Counter(books.read_text().splitlines() if books.exists() else ())
