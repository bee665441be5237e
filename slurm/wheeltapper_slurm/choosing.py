"""Which backend speaks to slurmctld, and why that one."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from wheeltapper.config import Config, SlurmSection
from wheeltapper.errors import SchedulerError
from wheeltapper_slurm.client import SlurmClient
from wheeltapper_slurm.pyslurm_client import PyslurmClient
from wheeltapper_slurm.pyslurm_process import PyslurmProcess
from wheeltapper_slurm.scontrol import Scontrol

log = logging.getLogger(__name__)

COMMAND, PYSLURM = "command", "pyslurm"

_SAID = {COMMAND: "Slurm's commands", PYSLURM: "pyslurm"}


@dataclass(frozen=True, slots=True)
class Choice:
    """The backend that is used, and why."""

    used: str
    why: str


def is_installed() -> bool:
    """True when there is a pyslurm to import; it is not imported for that."""
    return importlib.util.find_spec(PYSLURM) is not None


async def choose(
    section: SlurmSection, commands: Scontrol, process: PyslurmProcess, installed: Callable[[], bool] = is_installed
) -> Choice:
    """Return which backend to use: pyslurm when it can be imported and is made for slurmctld's release.

    Raises:
        SchedulerError: the configuration asks for pyslurm, and it cannot be used.
    """
    if section.client == COMMAND:
        return Choice(COMMAND, "the configuration says so")
    why_not = await _why_not(commands, process, installed)
    if why_not is None:
        return Choice(PYSLURM, "it can be imported and is of slurmctld's release")
    if section.client == PYSLURM:
        raise SchedulerError(f"slurm.client is pyslurm, but {why_not}")
    return Choice(COMMAND, why_not)


async def _why_not(commands: Scontrol, process: PyslurmProcess, installed: Callable[[], bool]) -> str | None:
    if not installed():
        return "pyslurm is not installed"
    try:
        ours = await process.version()
    except SchedulerError as error:
        return f"pyslurm cannot be used: {error}"
    try:
        theirs = (await commands.configuration()).get("SLURM_VERSION", "")
    except SchedulerError as error:
        return f"slurmctld's release is not known, so pyslurm's cannot be compared: {error}"
    if _release(ours) != _release(theirs):
        made_for = ".".join(_release(ours))
        return f"pyslurm is made for Slurm {made_for}, and slurmctld is {theirs or 'of no known release'}"
    return None


def _release(version: str) -> list[str]:
    return [part.zfill(2) for part in version.split(".")[:2]]


@asynccontextmanager
async def opened(section: SlurmSection) -> AsyncIterator[SlurmClient]:
    """Give the chosen client, after the log has said which it is and why.

    Raises:
        SchedulerError: the configuration asks for pyslurm, and it cannot be used.
    """
    commands = Scontrol(section.conf, section.command_timeout_s)
    process = PyslurmProcess(section.conf, section.command_timeout_s)
    try:
        choice = await choose(section, commands, process)
        log.info("slurmctld is spoken to through %s: %s", _SAID[choice.used], choice.why)
        yield PyslurmClient(process, commands) if choice.used == PYSLURM else commands
    finally:
        await process.close()


def in_use(config: Config) -> Choice:
    """Return what ``wheeltapper config show`` says of ``slurm.client``; what cannot be used is told as the reason."""

    async def ask() -> Choice:
        section = config.slurm
        process = PyslurmProcess(section.conf, section.command_timeout_s)
        try:
            return await choose(section, Scontrol(section.conf, section.command_timeout_s), process)
        except SchedulerError as error:
            return Choice("none", str(error))
        finally:
            await process.close()

    return asyncio.run(ask())
