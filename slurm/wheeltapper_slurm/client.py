"""The port through which everything here talks to slurmctld."""

from __future__ import annotations

from typing import Protocol

from wheeltapper_slurm.records import JobRecord, NodeRecord, PastAttempt


class SlurmClient(Protocol):
    """What we need of slurmctld. Every method may raise ``SchedulerDown`` (try again) or ``SchedulerError`` (refused).

    ``job`` arguments are ids that actions may use: ``12_3`` for a task of an array, never its master id.
    """

    async def job(self, job: str, name: str | None = None) -> JobRecord | None:
        """Return the job, or None when slurmctld no longer knows it; *name* is its name where it is known."""

    async def node(self, name: str) -> NodeRecord | None:
        """Return the node, or None when there is none of this name."""

    async def nodes(self) -> list[NodeRecord]:
        """Return every node."""

    async def topology(self) -> dict[str, frozenset[str]]:
        """Return the nodes of each leaf switch or block that Slurm knows of; nothing without a topology."""

    async def drain(self, node: str, reason: str) -> None:
        """Drain *node*, state and reason in one call: Slurm may throw away a reason that comes alone."""

    async def resume(self, node: str) -> None:
        """Put a drained *node* back to work."""

    async def reboot(self, node: str, reason: str) -> None:
        """Let slurmctld reboot *node* through its RebootProgram once nothing runs there; a drained node stays drained.

        *reason* is the node's own, which Slurm would otherwise replace.
        """

    async def requeue(self, job: str) -> None:
        """Requeue *job*; it stays pending for about two minutes unless its start time is changed."""

    async def end(self, job: str) -> None:
        """Kill the batch script of the running *job*: the job fails by a signal, and is not cancelled.

        When its script is gone Slurm ends its steps, as at any end; they have KillWait seconds.
        """

    async def cancel(self, job: str) -> None:
        """Cancel *job*: it is not run again."""

    async def update_job(self, job: str, key: str, value: str) -> None:
        """Set one property of *job*, such as ``ExcNodeList``, ``StartTime`` or ``AdminComment``."""

    async def annotate_finished(self, job: str, text: str) -> bool:
        """Set the AdminComment of a finished job in slurmdbd; False when it has no such record (yet).

        *job* is the job's own number, for a task of an array too. Raises ``SchedulerError`` where there is no slurmdbd.
        """

    async def past(self, job: str) -> list[PastAttempt]:
        """Return what slurmdbd knows of the attempts of *job* that are over; nothing where there is no slurmdbd."""

    async def release(self, job: str) -> None:
        """Release a held *job*."""

    async def configuration(self) -> dict[str, str]:
        """Return slurmctld's configuration as ``scontrol show config`` names it."""
