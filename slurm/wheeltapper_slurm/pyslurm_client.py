"""The pyslurm backend: slurmctld through pyslurm, and through Slurm's commands what pyslurm cannot do, or not safely.

Not through pyslurm go: tasks of arrays (it takes numbers only, and one task bears the number that stands for all of
them), jobs in COMPLETING (it does not show whether Slurm requeues the job itself), clearing a property, cancelling,
topology, reboot, slurmdbd, and the whole configuration.
"""

from __future__ import annotations

from wheeltapper import codec
from wheeltapper_slurm.pyslurm_process import PyslurmProcess
from wheeltapper_slurm.records import JobRecord, NodeRecord, PastAttempt
from wheeltapper_slurm.scontrol import Scontrol


class PyslurmClient:
    """Talks to slurmctld through *process*, and through *commands* where pyslurm will not do."""

    def __init__(self, process: PyslurmProcess, commands: Scontrol) -> None:
        self._process = process
        self._commands = commands

    async def job(self, job: str, name: str | None = None) -> JobRecord | None:
        if not job.isdigit():
            return await self._commands.job(job, name)
        found = await self._process.ask("job", job)
        if found is None:
            return None
        record = codec.load(JobRecord, found["record"])
        if found["is_task"] or record.id != job or record.completing:
            return await self._commands.job(job, name)
        return record

    async def node(self, name: str) -> NodeRecord | None:
        found = await self._process.ask("node", name)
        return None if found is None else codec.load(NodeRecord, found)

    async def nodes(self) -> list[NodeRecord]:
        return codec.load(list[NodeRecord], await self._process.ask("nodes"))

    async def topology(self) -> dict[str, frozenset[str]]:
        return await self._commands.topology()

    async def drain(self, node: str, reason: str) -> None:
        await self._process.ask("drain", node, reason)

    async def resume(self, node: str) -> None:
        await self._process.ask("resume", node)

    async def reboot(self, node: str, reason: str) -> None:
        await self._commands.reboot(node, reason)

    async def requeue(self, job: str) -> None:
        if job.isdigit():
            await self._process.ask("requeue", job)
        else:
            await self._commands.requeue(job)

    async def end(self, job: str) -> None:
        if job.isdigit():
            await self._process.ask("end", job)
        else:
            await self._commands.end(job)

    async def cancel(self, job: str) -> None:
        await self._commands.cancel(job)

    async def update_job(self, job: str, key: str, value: str) -> None:
        if job.isdigit() and value:
            await self._process.ask("update_job", job, key, value)
        else:
            await self._commands.update_job(job, key, value)

    async def annotate_finished(self, job: str, text: str) -> bool:
        return await self._commands.annotate_finished(job, text)

    async def past(self, job: str) -> list[PastAttempt]:
        return await self._commands.past(job)

    async def release(self, job: str) -> None:
        if job.isdigit():
            await self._process.ask("release", job)
        else:
            await self._commands.release(job)

    async def configuration(self) -> dict[str, str]:
        return await self._commands.configuration()
