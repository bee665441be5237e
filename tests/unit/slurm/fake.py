"""A slurmctld in memory: as much of it as the port needs, with the refusals that the real one makes."""

from __future__ import annotations

from dataclasses import replace

from wheeltapper.errors import SchedulerDown, SchedulerError
from wheeltapper_slurm.records import JobRecord, NodeRecord


def job(**changes) -> JobRecord:
    """A batch job that failed."""
    values = {
        "id": "12",
        "state": "FAILED",
        "reason": "NonZeroExitCode",
        "exit_code": 1,
        "signal": 0,
        "start": 900.0,
        "end": 1100.0,
        "batch": True,
        "requeueable": True,
        "restarts": 0,
        "batch_host": "n1",
        "priority": 100,
        "excluded": (),
        "admin_comment": "",
    }
    return JobRecord(**{**values, **changes})


def node(name="n2", states=("IDLE",), reason="", partitions=("main",), hosts=(), gpus=0) -> NodeRecord:
    """A node, idle unless said otherwise."""
    return NodeRecord(name, frozenset(states), reason, tuple(partitions), tuple(hosts), gpus)


class FakeSlurm:
    """Keeps records and writes down every change that it was asked for."""

    def __init__(
        self,
        *nodes: NodeRecord,
        jobs: tuple[JobRecord, ...] = (),
        down: bool = False,
        recorded: set[str] | None = None,
    ) -> None:
        self._recorded = recorded
        self._nodes = {each.name: each for each in nodes}
        self.jobs = {each.id: each for each in jobs}
        self.down = down
        self.started = ""
        self.no_reboot_program = False
        self.switches = {}
        self.books = []
        self.settings: dict[str, str] = {}
        self.refusals: set[str] = set()
        self.asked: list[tuple[str, ...]] = []
        self.looked: list[str] = []

    def _answer(self) -> None:
        if self.down:
            raise SchedulerDown("slurmctld does not answer")

    async def job(self, job, name=None):
        self._answer()
        self.looked.append(job)
        return self.jobs.get(job)

    async def node(self, name):
        self._answer()
        return self._nodes.get(name)

    async def nodes(self):
        self._answer()
        return list(self._nodes.values())

    async def topology(self):
        self._answer()
        return self.switches

    async def drain(self, node, reason):
        self._answer()
        self.asked.append(("drain", node, reason))
        self._nodes[node] = replace(self._nodes[node], states=frozenset({"IDLE", "DRAIN"}), reason=reason)

    def put_back(self, node):
        """What a person does."""
        self._nodes[node] = replace(self._nodes[node], states=frozenset({"IDLE"}), reason="")

    def set_node(self, node):
        """What the node has become meanwhile."""
        self._nodes[node.name] = node

    async def resume(self, node):
        self._answer()
        self.asked.append(("resume", node))
        self.put_back(node)

    async def reboot(self, node, reason):
        self._answer()
        self.asked.append(("reboot", node, reason))
        if self.no_reboot_program:
            raise SchedulerError("RebootProgram is not defined")

    async def requeue(self, job):
        self._answer()
        self.asked.append(("requeue", job))
        if not self.jobs[job].requeueable or "requeue" in self.refusals:
            raise SchedulerError("Requested operation is presently disabled")
        # While its epilogs run, a requeued job goes on to show COMPLETING.
        if self.jobs[job].state != "COMPLETING":
            self.jobs[job] = replace(self.jobs[job], state="PENDING")

    async def end(self, job):
        self._answer()
        self.asked.append(("end", job))
        if "end" in self.refusals:
            raise SchedulerError("Job/step already completing or completed")

    async def cancel(self, job):
        self._answer()
        self.asked.append(("cancel", job))
        self.jobs[job] = replace(self.jobs[job], state="CANCELLED")

    async def update_job(self, job, key, value):
        self._answer()
        self.asked.append(("update", job, key, value))
        if key == "AdminComment" and self.jobs[job].state in {"FAILED", "COMPLETED"}:
            raise SchedulerError("Job has already finished")
        if key == "AdminComment":
            self.jobs[job] = replace(self.jobs[job], admin_comment=value)
        if key == "ExcNodeList":
            self.jobs[job] = replace(self.jobs[job], excluded=tuple(value.split(",")))

    async def annotate_finished(self, job, text):
        self._answer()
        self.asked.append(("annotate_finished", job, text))
        if self._recorded is None:
            raise SchedulerError("there is no slurmdbd")
        return job in self._recorded

    async def past(self, job):
        self._answer()
        return self.books

    async def release(self, job):
        self._answer()
        self.asked.append(("release", job))
        self.jobs[job] = replace(self.jobs[job], priority=1)

    async def configuration(self):
        self._answer()
        return {**({"BOOT_TIME": self.started} if self.started else {}), **self.settings}
