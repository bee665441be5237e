"""The agent: what it is made of, how it starts, reloads and stops."""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import signal
import socket
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol, TextIO

from wheeltapper import catalogue, codec, config
from wheeltapper.checks.model import Context
from wheeltapper.checks.registry import choose
from wheeltapper.config import Config
from wheeltapper.errors import ConfigError
from wheeltapper.evidence import Source
from wheeltapper.tasks import end
from wheeltapper.wire import Answer, JobStay, LogReport
from wheeltapper_hooks.agent import drill, preflight
from wheeltapper_hooks.agent.boot import host_of, read_boot_id, uptime
from wheeltapper_hooks.agent.controller import Controller
from wheeltapper_hooks.agent.hooks import FRESHEN_S, Hooks
from wheeltapper_hooks.agent.job_cgroups import JobCgroups
from wheeltapper_hooks.agent.job_logs import LogReader
from wheeltapper_hooks.agent.leave import LeaveTaker
from wheeltapper_hooks.agent.markers import Markers
from wheeltapper_hooks.agent.outbox import Outbox
from wheeltapper_hooks.agent.server import Server
from wheeltapper_hooks.agent.slurm_node import SlurmNode
from wheeltapper_hooks.agent.store import Store
from wheeltapper_hooks.agent.teller import Teller
from wheeltapper_hooks.agent.watch import Watch

log = logging.getLogger(__name__)

TIDY_S = 3600.0
"""How often markers of dead jobs are looked for."""

AGAIN_S = 1.0
"""How long a part of the agent that failed rests before it starts again."""

FIRST_ROUND_S = 2.0
"""How long the first verdict waits for the checks: a prolog waits as long for an agent that says nothing."""

LOGS_S = 30.0
"""To read a job's logs: half of what the controller service waits for it, and a tail of 64 MB takes one or two."""


class Speaker(Protocol):
    """Who tells others how this node is."""

    async def tell_for_ever(self) -> None:
        """Tell it whenever it changes."""


class Agent:
    """One node's agent."""

    def __init__(self, settings: Config, given: Path | None) -> None:
        """Put the parts together.

        Raises:
            CatalogueError: a site's signature is wrong. ConfigError: a site's check, or a check's limit, is.
            OSError: the run directory cannot be made or has an agent already, or /proc does not say which boot this is.
        """
        self._given = given
        agent = settings.agent
        agent.run_dir.mkdir(parents=True, exist_ok=True)
        (agent.run_dir / "jobs").mkdir(exist_ok=True, mode=0o700)
        self._alone = _only_one(agent.run_dir / "agent.lock")
        boot_id = read_boot_id(agent.procfs)
        # A DaemonSet has one configuration for all nodes, and the node's name in the environment.
        self.node = settings.node.name or os.environ.get("NODE_NAME") or socket.gethostname().partition(".")[0]
        self._boot_id = boot_id
        signatures = catalogue.load(settings.diagnosis.catalogue_dirs).of(Source.KERNEL)
        self.store = Store(agent.state_dir / "agent.db", boot_id, agent.ring_rows, agent.ring_days)
        host = host_of(settings, self.node, boot_id)
        self._scheduler = agent.scheduler
        self._markers = Markers(agent.run_dir / "jobs")
        self.watch = Watch(settings, host, choose(settings.checks), self.store, signatures, self._is_idle)
        self._cgroups = JobCgroups(host, self._markers.jobs, settings.contention)
        self._server = Server(agent.run_dir / "agent.sock", self.answer)
        self._stop = asyncio.Event()
        self._answers: Counter[tuple[str, int]] = Counter()
        self._controller = Controller(settings.controller, self.node)
        self._outbox = Outbox(self.store, self._controller, self._read_logs)
        self._teller = self._speaker(agent.scheduler)
        self._use(settings)
        self.watch.write_settings()

    def _is_idle(self) -> bool:
        # Hooks tell of jobs; under Kubernetes there are none, and any pod may be one.
        return self._scheduler == "slurm" and not self._markers.jobs()

    def _speaker(self, scheduler: str) -> Speaker:
        if scheduler == "slurm":
            return Teller(self.watch, self._controller, self._markers)
        # OpenSSL costs megabytes that an agent under Slurm need not hold.
        from wheeltapper_hooks.agent.api_server import ApiServer  # noqa: PLC0415
        from wheeltapper_hooks.agent.kubernetes_teller import KubernetesTeller  # noqa: PLC0415

        return KubernetesTeller(self.watch, ApiServer())

    def _use(self, settings: Config) -> None:
        self.config = settings
        self._controller.section = settings.controller
        node = SlurmNode(self.node, settings.slurm.conf)
        leave = LeaveTaker(
            self.watch.boot_id, settings.policy.mode, self._controller, node, self.store, self.watch.settle
        )
        self._cgroups.limits = settings.contention
        self._hooks = Hooks(settings, self.watch, self._markers, self._outbox, leave, self._cgroups)

    async def run(self) -> None:
        """Serve until SIGTERM or SIGINT; raise ``OSError`` when the socket cannot be had."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        loop.add_signal_handler(signal.SIGHUP, self.reload)
        await self._server.start()
        shown = await self._show_metrics()
        tasks = [asyncio.create_task(_keep_going(self.watch.runner.run_for_ever))]
        await self.watch.runner.first_round(FIRST_ROUND_S)
        self.watch.refresh()
        self._cgroups.sample()
        parts: list[Callable[[], Awaitable[None]]] = [
            self.watch.follow,
            self.watch.refresh_for_ever,
            self._cgroups.sample_for_ever,
            self._outbox.deliver_for_ever,
            self._teller.tell_for_ever,
            self._tidy_for_ever,
        ]
        if self.config.kubernetes.preflight.enabled and self.config.agent.scheduler == "kubernetes":
            parts.append(self._pods())
        tasks += [asyncio.create_task(_keep_going(part)) for part in parts]
        log.info("Watching %s in mode %s.", self.node, self.config.policy.mode.value)
        await self._stop.wait()
        await end(tasks)
        await self._server.stop()
        if shown is not None:
            shown.close()
        self.watch.close()
        self.store.close()
        self._alone.close()
        log.info("Stopped.")

    def reload(self) -> None:
        """Read the configuration again; a broken one changes nothing. New paths count from the next start on."""
        try:
            settings = config.load(self._given)
            chosen = choose(settings.checks)
        except ConfigError as error:
            log.error("The old configuration stays in force: %s.", error)
            return
        if (settings.agent, settings.node.name, settings.diagnosis) != (
            self.config.agent,
            self.config.node.name,
            self.config.diagnosis,
        ):
            log.warning("Changes of [agent], [diagnosis] and node.name count from the next start on.")
        node = settings.node.model_copy(update={"name": self.config.node.name})
        kept = {"agent": self.config.agent, "diagnosis": self.config.diagnosis, "node": node}
        self._use(settings.model_copy(update=kept))
        self.watch.use(self.config, host_of(self.config, self.node, self._boot_id), chosen)
        log.info("The configuration was read again; the mode is %s.", self.config.policy.mode.value)

    async def answer(self, verb: str, environment: Mapping[str, str], wait: Callable[[float], None]) -> tuple[int, str]:
        """Return the answer to a client; raise ``ValueError`` for a verb that is none."""
        if verb == "status":
            return 0, json.dumps(self.status())
        if verb == "preflight":
            wait(preflight.LOOK_S)
            gpus = [each for each in environment.get("GPUS", "").split(",") if each]
            return 0, codec.dumps(await preflight.from_watch(self.watch, gpus))
        if verb == "drill":
            wait(drill.SEEN_S + drill.ASK_S)
            return 0, codec.dumps(await drill.play(environment.get("KIND", ""), self.watch, self._controller))
        code, sentence = await self._hooks.answer(verb, environment, wait)
        self._answers[verb, code] += 1
        return code, sentence

    async def _show_metrics(self) -> asyncio.AbstractServer | None:
        section = self.config.metrics
        if section.agent_port is None:
            return None
        from wheeltapper import metrics  # noqa: PLC0415 - 10 MB that an agent without metrics need not hold
        from wheeltapper_hooks.agent.metrics import families  # noqa: PLC0415 - likewise

        try:
            return await metrics.serve(
                section.address, section.agent_port, lambda: families(self.status(), self._answers)
            )
        except OSError as error:
            log.error("No metrics: %s.", error)
            return None

    def status(self) -> dict[str, object]:
        """Return how the agent is, as plain JSON values."""
        verdict = self.watch.look()
        return {
            "node": self.node,
            "verdict": codec.dump(verdict),
            "sentence": str(verdict),
            "mode": self.config.policy.mode.value,
            "kernel_sequence": self.watch.kernel.cursor,
            "undelivered": len(self._outbox),
            "controller": self._controller.said,
            "trouble": self.store.trouble,
            "checks": codec.dump(self.watch.runner.tally.total()),
        }

    def _pods(self) -> Callable[[], Awaitable[None]]:
        """Return what answers the pods of this node."""
        from wheeltapper_hooks.agent.api_server import ApiServer  # noqa: PLC0415 - see _speaker
        from wheeltapper_hooks.agent.pod_preflight import PodPreflight  # noqa: PLC0415
        from wheeltapper_hooks.agent.pod_server import PodServer  # noqa: PLC0415
        from wheeltapper_hooks.agent.pod_tokens import PodTokens  # noqa: PLC0415

        # A connection of its own: what pods ask must not wait for what the teller has to say.
        answers = PodPreflight(self.watch, PodTokens(ApiServer()), self._freshen)
        return PodServer(self.config.kubernetes.preflight, answers.answer).serve_for_ever

    async def _freshen(self) -> None:
        """Look at the node anew, as far as that is quick."""
        await self.watch.runner.freshen(FRESHEN_S, Context.PREFLIGHT)

    async def _read_logs(self, stay: JobStay, asked: Answer) -> LogReport:
        tail_bytes = self.config.agent.log_tail_mb << 20
        load = partial(catalogue.load, self.config.diagnosis.catalogue_dirs)
        return await LogReader(self.node, load, tail_bytes, LOGS_S).read(stay, asked)

    async def _tidy_for_ever(self) -> None:
        while True:
            self._markers.forget_the_dead(self.watch.boot_id, uptime())
            await asyncio.sleep(TIDY_S)


def _only_one(path: Path) -> TextIO:
    lock = path.open("w", encoding="ascii")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        raise FileExistsError(f"another agent holds {path}") from error
    return lock


async def _keep_going(part: Callable[[], Awaitable[None]]) -> None:
    """Run *part* again whenever it fails: a bug in one part must not silence the others."""
    while True:
        try:
            await part()
        except Exception:
            log.exception("A part of the agent failed and starts again; please report this as a bug.")
            await asyncio.sleep(AGAIN_S)
