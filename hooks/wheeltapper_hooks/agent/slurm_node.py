"""Takes this node out of service with scontrol, for when no controller service answers. Never on the pass path."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from wheeltapper_hooks.agent.files import find_scontrol
from wheeltapper_hooks.agent.processes import run_command
from wheeltapper_hooks.agentless import COMMAND_S, is_foreign, is_out


class Standing(Enum):
    """How the node stands in Slurm."""

    IN_SERVICE = "in service"
    OURS = "taken out by us"
    FOREIGN = "taken out by somebody else"


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """This node, as scontrol reaches it."""

    name: str
    conf: Path | None

    async def standing(self, deadline: float) -> Standing:
        """Return how the node stands; raise ``OSError`` when scontrol does not say."""
        shown = await self._scontrol(deadline, "show", "node", self.name, "-o")
        if is_foreign(shown):
            return Standing.FOREIGN
        return Standing.OURS if is_out(shown) else Standing.IN_SERVICE

    async def drain(self, reason: str, deadline: float) -> None:
        """Take the node out with *reason*; raise ``OSError`` when scontrol does not.

        State and Reason go in one call: Slurm throws a reason without a state away on a healthy node.
        """
        await self._scontrol(deadline, "update", f"NodeName={self.name}", "State=DRAIN", f"Reason={reason}")

    async def _scontrol(self, deadline: float, *arguments: str) -> str:
        path = find_scontrol()
        if path is None:
            raise FileNotFoundError("there is no scontrol on this machine")
        within = min(COMMAND_S, deadline - time.monotonic())
        if within <= 0:
            raise TimeoutError("no time is left to ask Slurm")
        environment = {**os.environ, **({"SLURM_CONF": str(self.conf)} if self.conf else {})}
        status, text = await run_command([path, *arguments], environment, within)
        if status != 0:
            raise OSError(f"scontrol {arguments[0]} ended with {status}: {text.strip()[:200]}")
        return text
