"""Keeps the child process that holds pyslurm, and cuts it off when it does not answer in time."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from wheeltapper.errors import SchedulerDown, SchedulerError
from wheeltapper_slurm.scontrol import is_down

COMMAND = (sys.executable, "-m", "wheeltapper_slurm.pyslurm_child")

MAX_ANSWER = 64 << 20
"""Bytes of one answer: the nodes of the largest clusters, a kilobyte each."""


class PyslurmProcess:
    """One call after the other, each within *timeout* seconds; after a call that was cut off, a new child."""

    def __init__(self, conf: Path | None, timeout: float, command: Sequence[str] = COMMAND) -> None:
        self._timeout = timeout
        self._command = command
        self._environment: Mapping[str, str] = {**os.environ, **({"SLURM_CONF": str(conf)} if conf else {})}
        self._child: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()

    async def version(self) -> str:
        """Return pyslurm's version, from a child that is started for it.

        Raises:
            SchedulerError: it cannot be imported, or its library finds no configuration.
        """
        async with self._turn:
            await self._end()
            return str(await self._within_time("pyslurm's start", self._start()))

    async def ask(self, name: str, *arguments: str) -> Any:
        """Return the answer to one call.

        Raises:
            SchedulerDown: slurmctld did not answer, or the child ended or had to be ended.
            SchedulerError: slurmctld refused.
        """
        async with self._turn:
            return await self._within_time(f"pyslurm's {name}", self._ask(name, arguments))

    async def close(self) -> None:
        """End the child."""
        async with self._turn:
            await self._end()

    async def _within_time(self, what: str, work: Any) -> Any:
        try:
            return await asyncio.wait_for(work, self._timeout)
        except asyncio.TimeoutError as error:
            await self._end()
            raise SchedulerDown(f"{what} was not done within {self._timeout:g} s") from error
        except (OSError, EOFError, ValueError) as error:
            await self._end()
            raise SchedulerDown(f"{what} failed, its process has ended") from error
        except asyncio.CancelledError:
            # The answer would otherwise be taken for that to the next call.
            await self._end()
            raise

    async def _start(self) -> Any:
        self._child = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=self._environment,
            limit=MAX_ANSWER,
            start_new_session=True,
        )
        return await self._answer(self._child)

    async def _ask(self, name: str, arguments: Sequence[str]) -> Any:
        if self._child is None:
            await self._start()
        child = self._child
        if child is None or child.stdin is None:
            raise EOFError
        child.stdin.write(json.dumps({"name": name, "arguments": arguments}).encode() + b"\n")
        await child.stdin.drain()
        return await self._answer(child)

    async def _answer(self, child: asyncio.subprocess.Process) -> Any:
        line = await child.stdout.readline() if child.stdout else b""
        if not line:
            raise EOFError
        said = json.loads(line)
        if "refused" in said:
            refusal = " ".join(str(said["refused"]).split())[:300]
            raise (SchedulerDown if is_down(refusal) else SchedulerError)(refusal)
        return said["value"]

    async def _end(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.wait()
        # Up to Python 3.10 the pipe to a child that has ended is closed only when it is written to.
        if child.stdin is not None:
            child.stdin.close()
