"""``python -m tests.e2e.slurm.record`` records what Slurm's commands print, for the tests of what reads it.

It plays jobs and nodes into every state that we tell apart, on a cluster of the chosen release, and writes one file for
each into ``tests/data/slurm/RELEASE``. What differs from machine to machine (folders, the kernel's name) is replaced.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.e2e.slurm.cluster import QUICK_SCHEDULING, Cluster
from tests.e2e.slurm.cluster.release import CHECKOUT, chosen
from tests.e2e.slurm.probes import Probes

SAMPLES = CHECKOUT / "tests" / "data" / "slurm"
LONG = "sleep 600"
EXPEDITES = (25, 11)
REASON = "wheeltapper: hardware/gpu_xid xid=79 gpu=0000:3b:00 job=1 at=2026-11-29T12:01:03Z: reboot"
NAME = "train UserId=root(0) JobState=FAILED Requeue=0"
"""A name that looks like fields, as a user may choose it."""
COMMENT = "wheeltapper: a1 hardware/gpu_xid xid=79 at node2 kernel log: 'OpType=ALLREDUCE, x=1'"


class Recorder:
    """Writes what *cluster* says into the folder of its release."""

    def __init__(self, cluster: Cluster, probes: Probes) -> None:
        self.cluster = cluster
        self.probes = probes
        self.folder = SAMPLES / ".".join(f"{part:02}" for part in cluster.release.version)

    @property
    def new_json(self) -> bool:
        """True where scontrol knows ``--json`` (24.11 and 26.05 do, 22.05 does not)."""
        return self.cluster.release.version >= (24, 11)

    def write(self, name: str, text: str) -> None:
        """Keep *text*, without what only this machine has."""
        for own, common in (
            (self.cluster.folder.parent, "/lab"),
            (CHECKOUT, "/opt/wheeltapper"),
            (os.uname().release, "6.1.0"),
        ):
            text = text.replace(str(own), common)
        text = re.sub(r"(?<=CPULoad=)[\d.]+|(?<=FreeMem=)\d+", "1", text)
        (self.folder / name).write_text(text)

    def json(self, name: str, key: str, *words: str, only: Callable[[Any], bool] = bool) -> None:
        """Keep the entries under *key* of what a command prints with ``--json``, one a line; *only* those."""
        entries = json.loads(self.cluster.run(*words, "--json").stdout)[key]
        self.write(name, "".join(f"{json.dumps(entry, separators=(',', ':'))}\n" for entry in entries if only(entry)))

    def job(self, name: str, job: str) -> None:
        """Keep *job* as it is now, in both forms. Only squeue has JSON on 22.05; later ones show no finished job there."""
        self.write(f"job-{name}.txt", self.cluster.scontrol("show", "job", "-o", job))
        number = self.cluster.job(job)["JobId"]
        words = ("scontrol", "show", "job", number) if self.new_json else ("squeue", "--all")
        self.json(f"job-{name}.json", "jobs", *words, only=lambda entry: str(entry["job_id"]) == number)

    # The states

    def endings(self) -> None:
        """Jobs that have come to an end, each in its way."""
        held = self.cluster.sbatch("exit 7", "--hold", f"--job-name={NAME}", "--exclude=node[3-4]")
        self.cluster.scontrol("update", f"JobId={held}", f"AdminComment={COMMENT}")
        self.job("held-by-user", held)
        self.cluster.scontrol("release", held)
        self.cluster.wait_job(held, "FAILED")
        self.job("failed", held)
        done = self.cluster.sbatch("true")
        self.cluster.wait_job(done, "COMPLETED")
        self.job("completed", done)
        stopped = self.cluster.sbatch(LONG)
        self.cluster.wait_job(stopped, "RUNNING")
        self.cluster.run("scancel", stopped)
        self.cluster.wait_job(stopped, "CANCELLED")
        self.job("cancelled", stopped)

    def under_way(self) -> None:
        """Jobs that run, wait or complete."""
        running = self.cluster.sbatch(LONG, "--nodes=2", "--gres=gpu:1")
        self.cluster.wait_job(running, "RUNNING")
        self.job("running", running)
        self.cluster.scontrol("requeue", running)
        self.cluster.wait(lambda: self.cluster.job(running)["JobState"] == "PENDING", 20.0, "the job to be pending")
        self.job("requeued", running)
        self.cluster.run("scancel", running)
        array = self.cluster.sbatch(LONG, "--array=1-2")
        self.cluster.wait_job(f"{array}_2", "RUNNING")
        self.job("array-task", f"{array}_2")
        self.cluster.run("scancel", array)
        self.probes.set("epilog", 'until_there "$SEEN/go" 60')
        ending = self.cluster.sbatch("exit 7")
        self.cluster.wait_job(ending, "COMPLETING")
        self.job("completing", ending)
        self.probes.allow("go")
        self.cluster.wait_job(ending, "FAILED")
        self.probes.reset()

    def failed_by_nodes(self) -> None:
        """Jobs whose node failed, and one whose prolog did."""
        for name, option in (("node-fail", "--no-requeue"), ("node-fail-requeued", "--requeue")):
            job = self.cluster.sbatch(LONG, option, "--nodelist=node4")
            self.cluster.wait_job(job, "RUNNING")
            self.cluster.scontrol("update", "NodeName=node4", "State=DOWN", "Reason=pulled the plug")
            state = "NODE_FAIL" if option == "--no-requeue" else "PENDING"
            self.cluster.wait_job(job, state)
            self.job(name, job)
            self.cluster.run("scancel", job)
            self.cluster.run(
                "scontrol", "update", "NodeName=node4", "State=RESUME", check=False
            )  # it may be back already
            self.cluster.wait(lambda: "IDLE" in self.cluster.node_state("node4")[0], 30.0, "node4 to be idle")
        self.probes.set("prolog", "exit 1")
        kept_off = self.cluster.sbatch("true", "--nodelist=node4")
        self.cluster.wait(lambda: self.cluster.job(kept_off)["Restarts"] == "1", 20.0, "the prolog to fail")
        self.cluster.wait_job(kept_off, "PENDING")
        self.job("held-after-prolog", kept_off)
        self.probes.reset()
        self.cluster.scontrol("update", "NodeName=node4", "State=RESUME")

    def expedited(self) -> None:
        """Jobs that Slurm itself requeues at once when an epilog fails; 25.11 was the first that did."""
        if self.cluster.release.version < EXPEDITES:
            return
        for name, epilog in (("expediting", "exit 1"), ("expedited-held", "exit 0")):
            self.probes.set("epilog", f'until_there "$SEEN/go" 60; {epilog}')
            job = self.cluster.sbatch("exit 7", "--requeue=expedite", "--nodelist=node4")
            self.cluster.wait_job(job, "COMPLETING")
            self.job(f"{name}-completing", job)
            self.probes.allow("go")
            self.cluster.wait(lambda job=job: self.cluster.job(job)["JobState"] != "COMPLETING", 20.0, "the requeue")
            self.job(name, job)
            self.cluster.run("scancel", job)
            self.probes.reset()
            self.cluster.run("scontrol", "update", "NodeName=node4", "State=RESUME", check=False)
            self.cluster.wait(lambda: self.cluster.node_state("node4")[0] == {"IDLE"}, 30.0, "node4 to be idle")

    def nodes(self) -> None:
        """Nodes: busy, drained by us while a job runs, down, and left alone."""
        job = self.cluster.sbatch(LONG, "--nodelist=node1", "--exclusive")
        also = self.cluster.sbatch(LONG, "--nodelist=node2", "--exclusive")
        self.cluster.wait_job(job, "RUNNING")
        self.cluster.wait_job(also, "RUNNING")
        self.cluster.scontrol("update", "NodeName=node2", "State=DRAIN", f"Reason={REASON}")
        self.cluster.scontrol("update", "NodeName=node3", "State=DOWN", "Reason=admin: swap PSU [rack 3]")
        self.write("nodes.txt", self.cluster.scontrol("show", "node", "-o"))
        # Of 22.05, only sinfo has the JSON of nodes; the sinfo of later ones prints groups of nodes.
        words = ("scontrol", "show", "nodes") if self.new_json else ("sinfo",)
        self.json("nodes.json", "nodes", *words)
        self.cluster.run("scancel", "--partition=main")

    def away(self) -> None:
        """A node that we drained, and which then has not answered for SlurmdTimeout."""
        node = self.cluster.node("node4")
        self.cluster.reconfigure(SlurmdTimeout="5")
        self.cluster.scontrol("update", "NodeName=node4", "State=DRAIN", f"Reason={REASON}")
        node.crash()
        self.cluster.wait(lambda: "DOWN" in self.cluster.node_state("node4")[0], 60.0, "node4 to be down")
        self.write("node-away.txt", self.cluster.scontrol("show", "node", "-o", "node4"))
        self.cluster.reconfigure(SlurmdTimeout=None)
        node.slurmd.start()

    def books(self) -> None:
        """What slurmdbd knows when all is over."""
        self.cluster.wait(lambda: not self.cluster.squeue("--noheader"), 30.0, "the queue to be empty")
        self.write("config.txt", self.cluster.scontrol("show", "config"))
        columns = "JobID,JobName,State,ExitCode,DerivedExitCode,NodeList,AdminComment"
        columns += ",FailedNode" if self.new_json else ""
        self.write("sacct.txt", self.cluster.run("sacct", "-X", "-P", "-D", f"--format={columns}").stdout)
        self.json("sacct.json", "jobs", "sacct", "-X", "-D")


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="wheeltapper-slurm-"))
    folder.chmod(0o755)
    probes = Probes(folder / "probes")
    options: dict[str, Any] = {"hooks": probes.hooks, "agents": False, "controller": False, "accounting": True}
    conf = {"SchedulerParameters": QUICK_SCHEDULING}
    if chosen().version >= EXPEDITES:
        conf["SlurmctldParameters"] = "enable_expedited_requeue"
    with Cluster(folder / "cluster", 4, conf=conf, **options) as cluster:
        recorder = Recorder(cluster, probes)
        shutil.rmtree(recorder.folder, ignore_errors=True)
        recorder.folder.mkdir(parents=True)
        jobs = (recorder.endings, recorder.under_way, recorder.failed_by_nodes, recorder.expedited)
        for play in (*jobs, recorder.nodes, recorder.away, recorder.books):
            print(f"Slurm {cluster.release.full_version}: {play.__doc__}", flush=True)
            play()
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
