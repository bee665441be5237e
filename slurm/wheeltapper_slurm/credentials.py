"""Opens the MUNGE credentials that nodes come with, and holds each node to its own address."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from wheeltapper import munge, wire
from wheeltapper.errors import SchedulerError, WireError
from wheeltapper_slurm.client import SlurmClient

log = logging.getLogger(__name__)

ROOT = 0

OPEN_S = 3.0
"""To open a credential, which takes 0.1 ms: munged's own patience is two seconds, and libmunge asks it five times."""

THREADS = 4
"""For munged, which may hang: it must not be asked by the event loop, nor by more threads than this."""

KNOWN_S = 300.0
"""How long a node's address is taken for granted: an address changes when a machine is replaced."""

UNKNOWN_S = 10.0
"""Between two questions to slurmctld for a node that it does not know."""


class Credentials:
    """Opens credentials. Nodes' addresses are slurmctld's word, and what it said last counts while it is silent."""

    def __init__(self, client: SlurmClient, munge_socket: Path | None = None) -> None:
        self._client = client
        self._socket = munge_socket
        self._threads = ThreadPoolExecutor(THREADS, "munge")
        self._may_speak = {ROOT, os.geteuid()}
        self._hosts: dict[str, tuple[str, ...]] = {}
        self._addresses: dict[str, tuple[float, frozenset[str]]] = {}
        self._asked_at = float("-inf")
        self._asking = asyncio.Lock()

    async def open(self, node: str, credential: str, peer: Any) -> bytes:
        """Return the key in the *credential* of *node*, whose connection comes from *peer*, a socket's address.

        Raises:
            WireError: the credential is none, is used up, was not made by root or by our own user, or was made or sent
                on a host that is not the node's.
        """
        if len(credential) > munge.MAX_CREDENTIAL:
            raise WireError(f"{node[:80]!r} came with a credential of {len(credential)} characters", kind="proof")
        opened = await self._opened(node, credential)
        if opened.uid not in self._may_speak:
            raise WireError(f"user {opened.uid} tried to speak for {node[:80]!r}", kind="proof")
        if len(opened.payload) != wire.SESSION_KEY:
            raise WireError(
                f"the credential of {node[:80]!r} holds {len(opened.payload)} bytes and no key", kind="proof"
            )
        known = await self._known(node)
        for how, address in (("made on", opened.address), ("sent from", _address(peer))):
            if address not in known:
                theirs = ", ".join(sorted(known)) or "not known"
                raise WireError(
                    f"a credential of {node[:80]!r} was {how} {address}, and that node's address is {theirs}",
                    kind="proof",
                )
        return opened.payload

    def close(self) -> None:
        """Wait for nobody: a thread that waits for munged ends when libmunge gives up."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _opened(self, node: str, credential: str) -> munge.Opened:
        opening = asyncio.get_running_loop().run_in_executor(self._threads, munge.decode, credential, self._socket)
        try:
            return await asyncio.wait_for(opening, OPEN_S)
        except asyncio.TimeoutError as error:
            raise WireError(
                f"munged did not open the credential of {node[:80]!r} within {OPEN_S:g} s", kind="proof"
            ) from error

    async def _known(self, node: str) -> frozenset[str]:
        loop = asyncio.get_running_loop()
        at, found = self._addresses.get(node, (float("-inf"), frozenset()))
        if loop.time() - at < KNOWN_S:
            return found
        for host in await self._hosts_of(node, loop.time()):
            with contextlib.suppress(OSError):
                infos = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
                found |= {_address(info[4]) for info in infos}
        if found:
            self._addresses[node] = loop.time(), found
        return found

    async def _hosts_of(self, node: str, now: float) -> tuple[str, ...]:
        async with self._asking:
            if now - self._asked_at > (KNOWN_S if node in self._hosts else UNKNOWN_S):
                self._asked_at = now
                try:
                    self._hosts |= {each.name: each.hosts for each in await self._client.nodes()}
                except SchedulerError as error:
                    log.warning("the addresses of nodes could not be asked: %s", error)
        return self._hosts.get(node, ())


def _address(sockaddr: Any) -> str:
    """Return the address in a socket's address, an IPv4 address in IPv6's clothes as what it is."""
    return str(sockaddr[0]).removeprefix("::ffff:") if sockaddr else "an unknown host"
