"""Samples the cgroup of every job on this node while it runs, because it is gone when the job is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from wheeltapper import contention
from wheeltapper.checks.model import Host
from wheeltapper.config import ContentionSection
from wheeltapper.contention import Sample
from wheeltapper.evidence import Finding

log = logging.getLogger(__name__)

SAMPLES_MAX = 240
"""Of one job, at a kilobyte or two each: an hour at the default interval, twice the window that is judged."""


class JobCgroups:
    """The samples of the jobs that are on the node; *jobs* says which those are, ``limits`` how they are judged."""

    def __init__(self, host: Host, jobs: Callable[[], list[str]], limits: ContentionSection) -> None:
        self.limits = limits
        self._host = host
        self._jobs = jobs
        self._samples: dict[str, list[Sample]] = {}

    async def sample_for_ever(self) -> None:
        """Look at every job again and again."""
        while True:
            await asyncio.sleep(self.limits.sample_s)
            self.sample()

    def sample(self) -> None:
        """Look at every job once, and forget those that are gone."""
        jobs = self._jobs()
        for job in jobs:
            self._take(job)
        for gone in self._samples.keys() - jobs:
            del self._samples[gone]

    def conclude(self, job: str) -> list[Finding]:
        """Return what *job*, which ends now, lacked and did not lack; it is forgotten with that."""
        self._take(job)  # where its cgroup is still there
        return contention.judge(self._samples.pop(job, []), self._host, self.limits)

    def _take(self, job: str) -> None:
        try:
            cgroup = contention.of_job(self._host, job)
            if cgroup is None:
                return
            sample = contention.read(self._host, cgroup)
        except FileNotFoundError:
            return  # it ended under our hands
        except (OSError, ValueError) as error:
            log.warning("The cgroup of job %s cannot be read: %s.", job, error)
            return
        kept = self._samples.setdefault(job, [])
        kept.append(sample)
        if len(kept) > SAMPLES_MAX:
            del kept[1]  # the first one tells how it was when the job began
