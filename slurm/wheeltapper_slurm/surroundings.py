"""Looks at what lies beside slurm.conf for ``wheeltapper slurm check``."""

from __future__ import annotations

import asyncio
import contextlib
import re
import stat
from pathlib import Path

from wheeltapper import munge, wire
from wheeltapper.config import ControllerSection
from wheeltapper.errors import WireError
from wheeltapper_slurm.checkup import Surroundings

CONNECT_S = 2.0
"""To wait for the service's greeting, which costs it nothing."""


async def look(controller: ControllerSection, slurm_user: str) -> Surroundings:
    """Return what is wrong; *slurm_user* is SlurmUser as ``scontrol show config`` prints it: ``slurm(64030)``."""
    found = re.search(r"\((\d+)\)", slurm_user)
    uid = int(found.group(1)) if found else None
    return Surroundings(
        key=_key(controller.key_file) if controller.takes_keys else _munge(controller),
        spool=_spool(controller.spool_dir / "ended", uid),
        service=await _service(controller.address),
    )


def _key(path: Path) -> str:
    try:
        wire.read_key(path)
        mode = stat.S_IMODE(path.stat().st_mode)
    except (WireError, OSError) as error:
        return f"{error}; make it with `openssl rand -hex 32`"
    if mode & 0o077:
        return f"{path} can be read by others than its owner (mode {mode:04o}); whoever has it can speak for every node"
    return ""


def _munge(controller: ControllerSection) -> str:
    place = controller.munge_socket or munge.DEFAULT_SOCKET
    if munge.is_here(controller.munge_socket):
        return ""
    without = "" if controller.auth == "munge" else f"there is no key file {controller.key_file}, and "
    return (
        f"{without}MUNGE cannot be used ({munge.LIBRARY} is missing, or munged does not listen at {place});"
        " start munged, or make keys: `openssl rand -hex 32`"
    )


def _spool(folder: Path, uid: int | None) -> str:
    try:
        status = folder.stat()
    except OSError as error:
        return f"{folder} cannot be looked at ({error.strerror}), and no end of a job can be left there"
    if not stat.S_ISDIR(status.st_mode):
        return f"{folder} is no folder"
    if uid is not None and status.st_uid != uid:
        return f"{folder} belongs to user {status.st_uid} and not to SlurmUser ({uid}), who runs EpilogSlurmctld"
    if status.st_mode & 0o022:
        return f"{folder} can be written by others than its owner, who could invent ends of jobs"
    return ""


async def _service(address: str) -> str:
    host, _, port = address.rpartition(":")
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection(host, int(port)), CONNECT_S)
    except (OSError, asyncio.TimeoutError) as error:
        return f"nobody listens at {address} ({error or 'no answer'}); is wheeltapper-controller.service running?"
    try:
        greeting = await asyncio.wait_for(reader.readline(), CONNECT_S)
    except (OSError, asyncio.TimeoutError, ValueError) as error:
        return f"what listens at {address} does not speak ({error or 'no answer'})"
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    if not greeting.startswith(f"{wire.PROTOCOL} ".encode()):
        return f"what listens at {address} is not the controller service"
    return ""
