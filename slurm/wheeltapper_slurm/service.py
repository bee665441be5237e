"""The controller service: hears the nodes, gathers what belongs to an attempt, decides once, and acts.

The inbox answers nodes, the rounds do the rest, and both share one event loop. Whatever arrives is in the journal
before anything follows from it, so the service may stop at any moment and go on where it was.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable

from wheeltapper import metrics, munge, wire
from wheeltapper.config import Config
from wheeltapper.errors import LedgerError, SchedulerError, WireError
from wheeltapper.ledger import learned
from wheeltapper.ledger.store import Ledger
from wheeltapper.tasks import end
from wheeltapper_slurm import checkup, domains
from wheeltapper_slurm.arrivals import Arrivals
from wheeltapper_slurm.checkup import Weight
from wheeltapper_slurm.client import SlurmClient
from wheeltapper_slurm.credentials import Credentials
from wheeltapper_slurm.healths import Healths
from wheeltapper_slurm.inbox import Inbox
from wheeltapper_slurm.journal import Journal
from wheeltapper_slurm.lasting import Lasting
from wheeltapper_slurm.limits import LARGE_AT_ONCE, Doors, Rates
from wheeltapper_slurm.metrics import families
from wheeltapper_slurm.parts import Parts
from wheeltapper_slurm.quarantine import Gate
from wheeltapper_slurm.rounds import Rounds

log = logging.getLogger(__name__)

BACKLOG = 1024
"""Connections that may wait to be taken: a thousand nodes of one job end in the same second."""

READ_TIMEOUT_S = 10.0
"""A peer that needs longer for one message is cut off."""

FORGET_EVERY_S = 86_400.0
FORGET_PAUSE_S = 1.0
"""How often old records are dropped, and the pause between two parts of it."""

LEARN_EVERY_S = 3600.0
"""One interruption more changes no pattern by itself."""


class Service:
    """The service for one cluster. *clock* gives Unix seconds.

    Raises:
        WheeltapperError: the key, the ledger or the journal cannot be read.
    """

    def __init__(self, config: Config, client: SlurmClient, clock: Callable[[], float] = time.time) -> None:
        self._config = config
        self._client = client
        self._clock = clock
        section = config.controller
        self._master = wire.read_key(section.key_file) if section.takes_keys else None
        self._credentials = None if self._master else Credentials(client, section.munge_socket)
        if self._master is None and not munge.is_here(section.munge_socket):
            raise WireError(
                f"there is no key file {section.key_file}, and no munged either: nodes could not prove who they are"
            )
        self._ledger = Ledger.of(config)
        self._journal = Journal(section.spool_dir / "journal.db", shared=section.is_shared)
        self._doors, self._rates = Doors(), Rates()
        domains.of(config.policy.budget.domains)  # a wrong node list is told at start
        gate = Gate(client, self._ledger, config.policy, Lasting(client, self._journal, clock), clock)
        healths = Healths(config.agent.health_interval_s)
        self._parts = Parts(config, client, self._ledger, self._journal, gate, Arrivals(), healths, clock)
        self._inbox = Inbox(self._parts)
        self._gate = wire.Gate(
            asyncio.Semaphore(LARGE_AT_ONCE), self._admit, self._credentials.open if self._credentials else None
        )
        self._rounds = Rounds(self._parts)

    async def run(self) -> None:
        """Serve until cancelled."""
        section = self._config.controller
        address = section.listen or section.address
        host, _, port = address.rpartition(":")
        server = await asyncio.start_server(self._connected, host, int(port), backlog=BACKLOG)
        proof = "key files" if self._master else "MUNGE"
        mode = self._config.policy.mode.value
        log.info("mode %s, listening on %s, nodes prove themselves by %s", mode, address, proof)
        beside = [asyncio.create_task(each()) for each in (self._forget_for_ever, self._learn_for_ever)]
        shown = await self._show_metrics()
        try:
            await self._inspect()
            await self._rounds.run()
        finally:
            await end(beside)
            if shown is not None:
                shown.close()
            # Not waited for: a peer that is slow must not keep us from stopping.
            server.close()
            if self._credentials is not None:
                self._credentials.close()
            self._journal.close()
            self._ledger.close()

    async def _inspect(self) -> None:
        """Say at start what in Slurm's own configuration would hurt users."""
        try:
            for advice in checkup.advise(await self._client.configuration(), self._config.policy):
                if advice.weight is Weight.DANGER:
                    log.warning("slurm.conf: %s", advice.sentence)
        except SchedulerError as error:
            log.warning("slurm.conf could not be looked at: %s", error)

    async def _show_metrics(self) -> asyncio.AbstractServer | None:
        section = self._config.metrics
        if section.controller_port is None:
            return None
        try:
            return await metrics.serve(section.address, section.controller_port, lambda: families(self._parts))
        except OSError as error:
            log.error("no metrics: %s", error)
            return None

    async def _forget_for_ever(self) -> None:
        """Drop what is older than the configuration keeps, a little at a time: nodes wait meanwhile."""
        keep_days = self._config.ledger.keep_days
        while keep_days is not None:
            try:
                gone = self._ledger.forget(self._clock() - keep_days * 86_400)
            except LedgerError as error:
                log.error("old records could not be dropped: %s", error)
                gone = 0
            await asyncio.sleep(FORGET_PAUSE_S if gone else FORGET_EVERY_S)

    async def _learn_for_ever(self) -> None:
        """Learn from the record once an hour, in a thread: nodes are answered meanwhile."""
        while True:
            now = self._clock()
            try:
                read = learned.material(self._ledger, now - learned.MEMORY_S, now)
                learned.keep(self._ledger, await asyncio.to_thread(learned.learn, read))
            except LedgerError as error:
                log.error("nothing new was learned from the record: %s", error)
            await asyncio.sleep(LEARN_EVERY_S)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        address = str((writer.get_extra_info("peername") or ("nowhere",))[0])
        try:
            with self._doors.enter(address):
                await wire.serve(reader, writer, self._master, self._inbox.hear, READ_TIMEOUT_S, self._gate)
        except WireError as error:
            self._parts.refusals.add(error, address, time.monotonic())
            writer.close()
        except (sqlite3.Error, LedgerError) as error:
            log.error("a message could not be written down, and is not answered: %s", error)
        except asyncio.CancelledError:
            # We stop, and the peer asks again. Up to Python 3.11 asyncio prints a traceback when it hears of it.
            log.debug("a peer was cut off by our own end")

    def _admit(self, node: str, size: int) -> None:
        self._rates.admit(node, size, time.monotonic())
