"""Writes to jobs of one kind, and says what was done, on the job and in the log."""

from __future__ import annotations

import logging

from wheeltapper import kubernetes_names as names
from wheeltapper_operator.api import MERGE_PATCH, Json
from wheeltapper_operator.events import Regarding
from wheeltapper_operator.jobs import Job, Kind
from wheeltapper_operator.parts import Parts
from wheeltapper_operator.reflector import Reflector

log = logging.getLogger(__name__)


class JobWriter:
    """What it writes is seen in *jobs* at once."""

    def __init__(self, parts: Parts, kind: Kind, jobs: Reflector[Job]) -> None:
        self.kind = kind
        self._parts = parts
        self._jobs = jobs

    async def read(self, job: Job) -> Json:
        """Return *job* as the server has it now."""
        return await self._parts.api.get(self.kind.path(job))

    async def patch(self, job: Job, patch: Json, sub: str = "") -> None:
        """Change *job*; one that was changed meanwhile makes this fail, and is looked at again from the start.

        Raises:
            SchedulerError: the API server does not answer, or refuses.
        """
        await self._parts.turn()
        path = self.kind.path(job, sub)
        self._jobs.put(await self._parts.api.patch(path, patch, MERGE_PATCH, fieldManager=names.MANAGER))

    def tell_requeued(self, job: Job, attempt: int) -> None:
        """Say, once, that *job* runs again after its *attempt*."""
        when = "begins when Kueue admits it" if job.queued else "begins"
        self.tell(job, "Requeued", f"attempt {attempt + 1} {when}", warning=False, once=True)

    def tell_stopped(self, job: Job, attempt: int) -> None:
        """Say, once, that *job* was stopped for good after its *attempt*."""
        said = "it would fail again in the same way, for ever; resume it to try"
        self.tell(job, "Stopped", f"attempt {attempt} is the last: {said}", warning=True, once=True)

    def tell(self, job: Job, reason: str, message: str, *, warning: bool, at: float = 0.0, once: bool = False) -> None:
        """Say *message* on *job* and in the log; *at* is when it came about (Unix seconds), now if it is 0."""
        log.info("%s: %s: %s", job.key, reason, message)
        about = Regarding(self.kind.group, self.kind.name, job.name, job.uid, job.namespace)
        now = at or self._parts.clock()
        self._parts.events.tell(about, reason, message, warning=warning, now=now, once=once)
