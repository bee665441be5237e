"""Plays a fault drill on this node, and tells which stations have seen it. Nothing is drained, whatever the mode is."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import stat
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from wheeltapper import drills
from wheeltapper.evidence import Finding
from wheeltapper.wire import Leave
from wheeltapper_hooks.agent.controller import Controller
from wheeltapper_hooks.agent.watch import Watch

log = logging.getLogger(__name__)

SEEN_S = 3.0
"""To see the line in the kernel log: a plain file is looked at 20 times a second."""

ASK_S = 5.0
"""For the controller service's answer."""

USER_WARNING = 12
"""Facility user (1 * 8) and severity warning (4), RFC 5424 section 6.2.1: what user space may write there."""


@dataclass(frozen=True, slots=True)
class Station:
    """A place that a fault passes: ``kernel log``, ``agent``, ``controller``, ``ledger``; ``told`` is a sentence."""

    name: str
    seen: bool
    told: str


@dataclass(frozen=True, slots=True)
class Drill:
    """What became of a drill."""

    node: str
    kind: str
    mark: str
    stations: tuple[Station, ...]


async def play(kind: str, watch: Watch, controller: Controller) -> Drill:
    """Play the drill *kind*; raise ``ValueError`` when there is none of that name."""
    if kind not in drills.LINES:
        raise ValueError(f"there is no drill {kind!r}; there are {', '.join(drills.LINES)}")
    mark = secrets.token_hex(4)
    log.warning("A drill of %s begins (%s): nothing is drained or requeued for it.", kind, mark)
    stations = tuple([each async for each in _passed(kind, mark, watch, controller)])
    return Drill(watch.node, kind, mark, stations)


async def _passed(kind: str, mark: str, watch: Watch, controller: Controller) -> AsyncIterator[Station]:
    began = time.monotonic()
    path = watch.config.agent.kmsg
    watch.kernel.drills[mark] = None
    try:
        _write(path, drills.line(kind, mark), watch.kernel.cursor)
    except OSError as error:
        del watch.kernel.drills[mark]
        yield Station("kernel log", seen=False, told=f"{path} cannot be written: {error}")
        return
    found = await _seen(mark, watch)
    if found is None:
        yield Station("kernel log", seen=False, told=f"the line did not come back from {path} within {SEEN_S:g} s")
        return
    yield Station("kernel log", seen=True, told=f"the line came back after {1000 * (time.monotonic() - began):.0f} ms")
    if not found:
        yield Station("agent", seen=False, told="no signature of the catalogue matches it")
        return
    told = ", ".join(f"{each.signature} ({each.label}, {each.disposition.value})" for each in found)
    yield Station("agent", seen=True, told=f"found {told}")
    for station in await _asked(found, watch, controller):
        yield station


async def _asked(found: tuple[Finding, ...], watch: Watch, controller: Controller) -> list[Station]:
    leave = Leave(watch.node, watch.boot_id, "drill", found)
    answer = await controller.ask(leave, ASK_S)
    if answer is None:
        return [Station("controller", seen=False, told=controller.said)]
    heard = Station("controller", seen=answer.ok, told=answer.reason)
    if not any(each.convicts for each in found):
        return [heard]
    return [
        heard,
        Station("ledger", seen=answer.recorded, told="recorded as a drill" if answer.recorded else "not recorded"),
    ]


async def _seen(mark: str, watch: Watch) -> tuple[Finding, ...] | None:
    deadline = time.monotonic() + SEEN_S
    while watch.kernel.drills[mark] is None and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
        watch.look()
    return watch.kernel.drills.pop(mark)


def _write(path: Path, text: str, cursor: int) -> None:
    """Write *text* as user space's own; into a plain file as the device would hand it out, after record *cursor*."""
    log_file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        if stat.S_ISCHR(os.fstat(log_file).st_mode):
            # Without an end of line the kernel keeps it back, for what may still be written behind it.
            record = f"<{USER_WARNING}>{text}\n"
        else:
            record = f"{USER_WARNING},{cursor + 1},{time.monotonic_ns() // 1000},-;{text}\n"
        os.write(log_file, record.encode())
    finally:
        with contextlib.suppress(OSError):
            os.close(log_file)
