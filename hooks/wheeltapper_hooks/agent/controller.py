"""The way to the controller service: where it is, and how this node proves its name."""

from __future__ import annotations

import logging

from wheeltapper import wire
from wheeltapper.config import ControllerSection
from wheeltapper.errors import WireError

log = logging.getLogger(__name__)


class Controller:
    """Asks the service; without a key there is none to ask, which is said once. ``said`` is the last that was said."""

    def __init__(self, section: ControllerSection, node: str) -> None:
        self.section = section
        self._node = node
        self.said = ""

    @property
    def exists(self) -> bool:
        """False without a key file: this cluster has no service, or this node was not introduced to it."""
        if self.section.key_file.exists():
            return True
        self._say(f"No controller service is asked, because there is no key file {self.section.key_file}.")
        return False

    async def ask(self, message: wire.Message, within: float) -> wire.Answer | None:
        """Return the service's answer to *message*; None when it gave none within *within* seconds."""
        if not self.exists:
            return None
        try:
            key = wire.read_key(self.section.key_file)
            answer = await wire.ask(self.section.address, self._node, key, message, within)
        except (WireError, OSError) as error:
            self._say(f"The controller service gave no answer: {error}.")
            return None
        self._say("The controller service answers.")
        return answer

    def _say(self, sentence: str) -> None:
        if sentence != self.said:
            log.warning("%s", sentence)
        self.said = sentence
