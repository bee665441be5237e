"""Of all services on one spool folder, one acts: whoever holds the lock on a file in it. The others stand by.

On a cluster with a backup slurmctld that folder is shared by both hosts, as Slurm's own StateSaveLocation is. The lock
is the file system's own, which lets it go when its holder dies (kill -9 at once, a host that is gone when the file
server's lease on it has run out, 90 s as a rule).
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from wheeltapper.errors import WheeltapperError
from wheeltapper.tasks import AGAIN_S

log = logging.getLogger(__name__)

LOCK = "active.lock"

TRY_S = 1.0
"""Between two tries to get the lock: a takeover is as fast."""

BEAT_S = 5.0
"""Between two writes into the locked file, by which a service learns that its lock is gone: well under a lease."""

STUCK_S = 30.0
"""A folder that takes no write for so long is as good as gone, and another service may have it."""


class LockLostError(WheeltapperError):
    """The folder, and with it the lock, is gone: another service may act now, and we must not."""


@asynccontextmanager
async def turn(folder: Path) -> AsyncIterator[None]:
    """Wait until no other service acts on *folder*, and hold that right inside.

    The work inside is cancelled when the right is lost.

    Raises:
        WheeltapperError: the folder cannot be written (``LockLostError`` when that happens inside).
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise WheeltapperError(f"{folder / LOCK} cannot be opened: {error.strerror}") from error
    try:
        await _wait(file, folder / LOCK)
        async with _held(file, folder / LOCK):
            yield
    finally:
        os.close(file)


async def _wait(file: int, path: Path) -> None:
    said = False
    while not _locked(file, path):
        if not said:
            log.info("standing by: %s acts, and holds %s", _holder(file), path)
            said = True
        await asyncio.sleep(TRY_S)
    if said:
        log.warning("the service that acted is gone, and this one takes over")


def _locked(file: int, path: Path) -> bool:
    # Not flock: a child that outlives us, a scontrol that hangs, would go on to hold it.
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return False
    except OSError as error:
        raise WheeltapperError(f"{path} cannot be locked: {error.strerror}; its file system must have locks") from error
    return True


def _holder(file: int) -> str:
    return os.pread(file, 200, 0).decode("utf-8", "replace").strip() or "another service"


@asynccontextmanager
async def _held(file: int, path: Path) -> AsyncIterator[None]:
    """Cancel what runs inside when the lock's file can no longer be written."""
    lost: list[str] = []
    beating = asyncio.create_task(_beat(file, asyncio.current_task(), lost))
    try:
        yield
    except asyncio.CancelledError as error:
        if lost:
            raise LockLostError(f"{path} is lost ({lost[0]}); another service may act now") from error
        raise
    finally:
        beating.cancel()


async def _beat(file: int, inside: asyncio.Task[object] | None, lost: list[str]) -> None:
    while not lost:
        try:
            await asyncio.wait_for(asyncio.to_thread(_sign, file), STUCK_S)
            await asyncio.sleep(BEAT_S)
        except (OSError, asyncio.TimeoutError) as error:
            lost.append(str(error) or f"no write within {STUCK_S:g} s")
    while inside is not None and not inside.done():
        inside.cancel()
        await asyncio.sleep(AGAIN_S)


def _sign(file: int) -> None:
    text = f"{socket.gethostname()}, process {os.getpid()}, at {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}\n"
    os.pwrite(file, text.encode(), 0)
    os.ftruncate(file, len(text.encode()))
    os.fsync(file)
