"""What the agent does for each hook: the prolog's question, the epilog's account, the health check.

Each returns an exit code and a sentence, in less time than the thin client waits for it.
Jobs that share a node are independent: nothing here is kept between two calls but their markers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wheeltapper.checks.host import versions
from wheeltapper.checks.model import Context, Host, NotApplicable
from wheeltapper.config import Config
from wheeltapper.verdict import State
from wheeltapper.wire import JobStay, Report
from wheeltapper_hooks.agent.boot import uptime
from wheeltapper_hooks.agent.job_cgroups import JobCgroups
from wheeltapper_hooks.agent.leave import LeaveTaker
from wheeltapper_hooks.agent.markers import Marker, Markers, gpu_addresses, job_id
from wheeltapper_hooks.agent.outbox import Outbox
from wheeltapper_hooks.agent.stays import BEFORE_S, Moment, began, of_this_stay, stay_of
from wheeltapper_hooks.agent.view import for_gpus
from wheeltapper_hooks.agent.watch import Watch
from wheeltapper_hooks.client import ASK_S

log = logging.getLogger(__name__)

WORK_S = ASK_S - 0.5
"""For everything that one hook asks of us: half a second under the client's patience."""

FRESHEN_S = 0.5
"""For a prolog to read again what is older than its period and cannot hang: some files, within milliseconds."""

FINDINGS_MAX = 2_000
"""Findings of one report; at the longest excerpts still under the wire's limit."""

Environment = Mapping[str, str]
Answer = tuple[int, str]
Wait = Callable[[float], None]
"""Tells the client that an answer will take so many seconds."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """The three hooks. Pure of sockets: ``server`` brings them the client's question."""

    config: Config
    watch: Watch
    markers: Markers
    outbox: Outbox
    leave: LeaveTaker
    cgroups: JobCgroups

    async def answer(self, hook: str, environment: Environment, wait: Wait) -> Answer:
        """Return the answer to *hook*; raise ``ValueError`` when there is no such hook."""
        self._check_name(environment)
        if hook == "prolog":
            return await self._prolog(environment, wait)
        if hook == "epilog":
            return await self._epilog(environment, wait)
        if hook == "healthcheck":
            return await self._healthcheck(wait)
        raise ValueError(f"there is no hook named {hook!r}")

    async def _prolog(self, environment: Environment, wait: Wait) -> Answer:
        deadline = time.monotonic() + WORK_S
        job = job_id(environment.get("SLURM_JOB_ID", ""))
        await self.watch.runner.freshen(FRESHEN_S, Context.PREFLIGHT)
        verdict = self.watch.look()
        if job is not None:
            uid, gpus = environment.get("SLURM_JOB_UID", ""), environment.get("SLURM_JOB_GPUS", "")
            self.markers.write(job, Marker(uptime(), self.watch.boot_id, uid, gpus))
        if verdict.state is not State.FAIL:
            return 0, str(
                for_gpus(verdict, gpu_addresses(environment.get("SLURM_JOB_GPUS", ""), self.config.node.gpus))
            )
        wait(ASK_S)
        return await self.leave.take("prolog", verdict.findings, job, deadline)

    async def _healthcheck(self, wait: Wait) -> Answer:
        deadline = time.monotonic() + WORK_S
        verdict = self.watch.look()
        if verdict.state is not State.FAIL:
            return 0, str(verdict)
        wait(ASK_S)
        return await self.leave.take("healthcheck", verdict.findings, None, deadline)

    async def _epilog(self, environment: Environment, wait: Wait) -> Answer:
        deadline = time.monotonic() + WORK_S
        wait(ASK_S)
        job = job_id(environment.get("SLURM_JOB_ID", ""))
        if job is None:
            return 0, "there is no account to give of a job without an id"
        verdict = self.watch.look()
        moment = Moment(time.time(), uptime(), self.watch.boot_id)
        stay = stay_of(job, self.markers.read(job), environment, self.config.node.gpus, moment)
        self._report(stay, moment.now)
        guilty = of_this_stay(verdict.findings, stay, moment.now) if verdict.state is State.FAIL else ()
        answer = 0, f"nothing speaks against this node in the stay of job {job}"
        if guilty:
            answer = await self.leave.take("epilog", guilty, job, deadline)
        self.markers.remove(job)
        self.watch.runner.job_ended()
        return answer

    def _report(self, stay: JobStay, now: float) -> None:
        """Leave the account of *stay* in the outbox: the epilog, and with it the node, waits for no delivery."""
        own = self.cgroups.conclude(stay.job)
        if self.leave.controller.exists:
            findings = [*self.watch.since(began(stay, now) - BEFORE_S, FINDINGS_MAX - len(own)), *own]
            told = dict(_versions(self.watch.host))
            self.outbox.post(Report(self.watch.node, self.watch.boot_id, stay, tuple(findings), told))

    def _check_name(self, environment: Environment) -> None:
        named = environment.get("SLURMD_NODENAME", self.watch.node)
        if named != self.watch.node:
            log.error("Slurm calls this node %s and we call it %s: set node.name.", named, self.watch.node)


def _versions(host: Host) -> Mapping[str, str]:
    try:
        return versions.read(host)
    except (NotApplicable, OSError):
        return {}
