"""The way to the controller service: where it is, and how this node proves its name."""

from __future__ import annotations

import asyncio
import logging
import pwd
import secrets
import time
from concurrent.futures import ThreadPoolExecutor

from wheeltapper import munge, wire
from wheeltapper.config import ControllerSection
from wheeltapper.errors import WireError

log = logging.getLogger(__name__)


FIRST_SHARE = 0.75
"""Of the time for a question, with two services: one that lives gets nearly all, and a host that is gone not all."""


class Controller:
    """Asks the service; without a key or MUNGE there is none to ask, which is said once.

    ``said`` is the last that was said.
    """

    def __init__(self, section: ControllerSection, node: str) -> None:
        self.section = section
        self._node = node
        self.said = ""
        self._addresses = [section.address, *filter(None, [section.standby_address])]
        # One thread: a munged that hangs holds one question, and the others run into their own deadlines.
        self._thread = ThreadPoolExecutor(1, "munge")

    @property
    def exists(self) -> bool:
        """False without a key file and without MUNGE: this cluster has no service, or this node was not introduced."""
        section = self.section
        if section.key_file.exists() if section.takes_keys else munge.is_here(section.munge_socket):
            return True
        lacks = f"there is no key file {section.key_file}" if section.auth != "munge" else "munged does not run"
        without = f"{lacks}, and no MUNGE" if section.auth == "auto" else lacks
        self._say(f"No controller service is asked, because {without}.")
        return False

    async def ask(self, message: wire.Message, within: float) -> wire.Answer | None:
        """Return the service's answer to *message*; None when it gave none within *within* seconds."""
        if not self.exists:
            return None
        until = time.monotonic() + within
        failures = []
        for others in reversed(range(len(self._addresses))):
            address = self._addresses[0]
            left = max(0.0, until - time.monotonic())
            try:
                answer = await self._ask(address, message, left * FIRST_SHARE if others else left)
            except (WireError, OSError) as error:
                failures.append(str(error) if len(self._addresses) == 1 else f"{address}: {error}")
                # Of two services one acts, and the next question goes first to the one that may be it.
                self._addresses.append(self._addresses.pop(0))
            else:
                self._say("The controller service answers.")
                return answer
        self._say(f"The controller service gave no answer: {'; '.join(failures)}.")
        return None

    async def _ask(self, address: str, message: wire.Message, within: float) -> wire.Answer:
        until = time.monotonic() + within
        key, credential = await self._proof(within)
        return await wire.ask(address, self._node, key, message, max(0.0, until - time.monotonic()), credential)

    async def _proof(self, within: float) -> tuple[bytes, str]:
        """Return a key and, where it is no key of a key file, the credential that takes it to the service."""
        section = self.section
        if section.takes_keys:
            return wire.read_key(section.key_file), ""
        try:
            uid = pwd.getpwnam(section.user).pw_uid
        except KeyError as error:
            raise WireError(f"this node knows no user {section.user!r} (controller.user)") from error
        key = secrets.token_bytes(wire.SESSION_KEY)
        loop = asyncio.get_running_loop()
        making = loop.run_in_executor(self._thread, munge.encode, key, uid, section.munge_socket)
        try:
            return key, await asyncio.wait_for(making, within)
        except asyncio.TimeoutError as error:
            raise TimeoutError("munged made no credential in time") from error

    def _say(self, sentence: str) -> None:
        if sentence != self.said:
            log.warning("%s", sentence)
        self.said = sentence
