"""The child process that holds pyslurm: the only file that imports it.

pyslurm keeps Python's lock while it waits for slurmctld, so a thread would stop the whole service with it, and
libslurm ends its process when it finds no slurm.conf. In a process of its own it can be cut off, and can only end
itself. It reads one call a line from standard input, and answers each with one line, both JSON.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import sys
from collections.abc import Callable, Iterable
from typing import IO, Any

from wheeltapper_slurm import hostlist, records
from wheeltapper_slurm.records import JobRecord, NodeRecord

_PROPERTIES = {"AdminComment": "admin_comment", "ExcNodeList": "excluded_nodes", "StartTime": "begin_time"}
"""What scontrol calls a property of a job, and what ``JobSubmitDescription`` does."""


class Calls:
    """What the service asks of *pyslurm*, the module. Jobs are given by their own number; refusals are ``RPCError``."""

    def __init__(self, pyslurm: Any) -> None:
        self._pyslurm = pyslurm

    def job(self, number: str) -> dict[str, Any] | None:
        """Return the job and whether it is a task of an array; None when slurmctld no longer knows it."""
        try:
            job = self._pyslurm.Job.load(int(number))
        except self._pyslurm.RPCError as error:
            if "Invalid job id" not in str(error):
                raise
            return None
        return {"record": dataclasses.asdict(job_of(job)), "is_task": bool(job.array_id)}

    def node(self, name: str) -> dict[str, Any] | None:
        """Return the node; None when there is none of this name."""
        try:
            return _node(self._pyslurm.Node.load(name))
        except self._pyslurm.RPCError as error:
            if "Invalid node name" not in str(error) and "does not exist" not in str(error):
                raise
            return None

    def nodes(self) -> list[dict[str, Any]]:
        """Return every node."""
        return [_node(node) for node in self._pyslurm.Nodes.load().values()]

    def drain(self, name: str, reason: str) -> None:
        """Drain a node, state and reason in one call."""
        self._pyslurm.Node(name).modify(self._pyslurm.Node(state="DRAIN", reason=reason))

    def resume(self, name: str) -> None:
        """Put a drained node back to work."""
        self._pyslurm.Node(name).modify(self._pyslurm.Node(state="RESUME"))

    def requeue(self, number: str) -> None:
        """Requeue a job."""
        self._pyslurm.Job(int(number)).requeue()

    def end(self, number: str) -> None:
        """Kill the batch script of a running job."""
        self._pyslurm.Job(int(number)).send_signal(int(signal.SIGKILL), steps="batch")

    def release(self, number: str) -> None:
        """Release a held job."""
        self._pyslurm.Job(int(number)).release()

    def update_job(self, number: str, key: str, value: str) -> None:
        """Set one property of a job."""
        change = self._pyslurm.JobSubmitDescription(**{_PROPERTIES[key]: value})
        self._pyslurm.Job(int(number)).modify(change)


def job_of(job: Any) -> JobRecord:
    """Return the record of a ``pyslurm.Job``."""
    return JobRecord(
        id=str(job.id),
        state=str(job.state).upper(),
        reason="" if job.state_reason in {None, "None"} else str(job.state_reason).replace(" ", "_"),
        exit_code=int(job.exit_code or 0),
        signal=int(job.exit_code_signal or 0),
        start=float(job.start_time) if job.start_time else None,
        end=float(job.end_time) if job.end_time else None,
        batch=bool(job.is_batch_job),
        requeueable=bool(job.is_requeueable),
        restarts=int(job.requeue_count or 0),
        batch_host=job.batch_host or None,
        priority=1 if job.priority is None else int(job.priority),
        excluded=hostlist.expand(job.excluded_nodes or ""),
        admin_comment=job.admin_comment or "",
        nodes=int(job.num_nodes or 0),
        het_leader=str(job.heterogeneous_id or ""),
        partitions=tuple(filter(None, (job.partition or "").split(","))),
        uid=job.user_id,
        node_list=job.allocated_nodes or "",
        comment=job.comment or "",
    )


def _node(node: Any) -> dict[str, Any]:
    gres: dict[str, int] = node.configured_gres or {}
    gpus = sum(int(count) for name, count in gres.items() if name.partition(":")[0] == "gpu")
    record = NodeRecord(node.name, records.states(node.state), records.own_reason(node.reason or ""), (), gpus=gpus)
    return {**dataclasses.asdict(record), "states": sorted(record.states), "partitions": list(node.partitions or ())}


def serve(calls: Calls, asked: Iterable[str], answers: IO[str]) -> None:
    """Answer each line of *asked* on *answers*, until there are no more."""
    for line in asked:
        call = json.loads(line)
        method: Callable[..., Any] = getattr(calls, call["name"])
        try:
            said = {"value": method(*call["arguments"])}
        except Exception as error:  # noqa: BLE001 - the boundary of this process: the other side logs what it was
            said = {"refused": str(error) or type(error).__name__}
        answers.write(json.dumps(said) + "\n")
        answers.flush()


def main() -> None:
    """Say which pyslurm this is, or why there is none, and answer calls."""
    # What libslurm prints must not stand between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        import pyslurm  # noqa: PLC0415 - that it cannot be imported is an answer
    except ImportError as error:
        answers.write(json.dumps({"refused": f"pyslurm cannot be imported: {error}"}) + "\n")
        answers.flush()
        return
    answers.write(json.dumps({"value": str(pyslurm.__version__)}) + "\n")
    answers.flush()
    serve(Calls(pyslurm), sys.stdin, answers)


if __name__ == "__main__":
    main()
