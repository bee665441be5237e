"""A stand-in for the module pyslurm: as much of the documented API of 25.11 as we use, on jobs and nodes in memory.

The jobs are given as Slurm's JSON writes them (``tests/data/slurm``). It never spoke to a slurmctld: what the real
pyslurm does is asked by the contract tests on a real cluster.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

__version__ = "24.11.5"

SAMPLES = Path(__file__).parents[2] / "data" / "slurm"

jobs: dict[int, SimpleNamespace] = {}
asked: list[tuple] = []
trouble: list[Exception] = []


class PyslurmError(Exception):
    pass


class RPCError(PyslurmError):
    pass


def _number(value):
    return value["number"] if value["set"] else None


def add(entry):
    """Let slurmctld know the job in *entry*, one of Slurm's JSON."""
    states = entry["job_state"]
    jobs[entry["job_id"]] = SimpleNamespace(
        id=entry["job_id"],
        user_id=entry["user_id"],
        state="COMPLETING" if "COMPLETING" in states else states[-1],
        state_reason=entry["state_description"] or entry["state_reason"],
        exit_code=_number(entry["exit_code"]["return_code"]),
        exit_code_signal=_number(entry["exit_code"]["signal"]["id"]),
        start_time=_number(entry["start_time"]) or None,
        end_time=_number(entry["end_time"]) or None,
        partition=entry["partition"],
        is_batch_job=entry["batch_flag"],
        is_requeueable=entry["requeue"],
        requeue_count=entry["restart_cnt"],
        batch_host=entry["batch_host"] or None,
        priority=_number(entry["priority"]),
        excluded_nodes=entry["excluded_nodes"] or None,
        admin_comment=entry["admin_comment"] or None,
        comment=entry["comment"] or None,
        allocated_nodes=entry["nodes"] or None,
        num_nodes=_number(entry["node_count"]),
        heterogeneous_id=_number(entry["het_job_id"]),
        array_id=_number(entry["array_job_id"]) or None,
    )


def add_samples(release, *names):
    """Let slurmctld know the jobs that were recorded of *release* under these names."""
    for name in names:
        add(json.loads((SAMPLES / release / f"job-{name}.json").read_text().splitlines()[0]))


def _rpc():
    if trouble:
        raise trouble[0]


class JobSubmitDescription:
    def __init__(self, **changes):
        unknown = set(changes) - {"admin_comment", "excluded_nodes", "begin_time"}
        assert not unknown, unknown
        self.changes = changes


class Job:
    def __init__(self, job_id):
        assert isinstance(job_id, int)
        self.id = job_id

    @staticmethod
    def load(job_id):
        _rpc()
        if job_id not in jobs:
            raise RPCError("Invalid job id specified")
        return jobs[job_id]

    def requeue(self, hold=False):
        _rpc()
        asked.append(("requeue", self.id, hold))
        if not jobs[self.id].is_requeueable:
            raise RPCError("Requested operation is presently disabled")

    def send_signal(self, signal, steps="children", hurry=False):
        _rpc()
        asked.append(("send_signal", self.id, signal, steps, hurry))

    def release(self):
        _rpc()
        asked.append(("release", self.id))

    def modify(self, changes):
        _rpc()
        asked.append(("modify", self.id, changes.changes))


NODES = {"node1": ("IDLE", None), "node2": ("ALLOCATED+DRAIN", "wheeltapper: hardware/gpu_xid xid=79: reboot")}


class Node:
    def __init__(self, name=None, **changes):
        self.name, self.changes = name, changes

    @staticmethod
    def load(name):
        _rpc()
        if name not in NODES:
            raise RPCError(f"Node '{name}' does not exist")
        state, reason = NODES[name]
        return SimpleNamespace(
            name=name, state=state, reason=reason, partitions=["main"], configured_gres={"gpu:h100": 8, "nic": 1}
        )

    def modify(self, changes):
        _rpc()
        asked.append(("node", self.name, changes.changes))


class Nodes:
    @staticmethod
    def load():
        return {name: Node.load(name) for name in NODES}
