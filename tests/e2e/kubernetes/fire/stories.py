"""What happens in more than one test: who leads, what breaks, and when all that follows is over."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web

from tests.e2e.kubernetes.fire.gate import Before, Write
from tests.e2e.kubernetes.fire.world import Operator, World, connections, until, world
from tests.integration.control_plane import ControlPlane

T = TypeVar("T")

FAULTS = 20
GANG = 2
KINDS_WATCHED = 5
"""Nodes, their agents' words, batch jobs, and the pods of both kinds of job; this cluster has no PyTorchJob."""


def play(plane: ControlPlane, folder: Path, story: Callable[[World], Awaitable[T]], seconds: float = 170.0) -> T:
    """Run *story* in an empty cluster."""

    async def whole() -> T:
        async with world(plane, folder) as made:
            answer = await asyncio.wait_for(story(made), seconds)
        # A request that is cut off leaves its connection until the server, too, has said that TLS ends.
        await until(lambda: not connections(plane.port), "the end of all connections")
        return answer

    return asyncio.run(whole())


async def leading(made: World, percent: float = 100.0, refuse: int = 0) -> Operator:
    """Return an operator that leads and watches; the server refuses it the first *refuse* writes of each object."""
    operator = await made.operator(percent)
    operator.gate.before = refusing(refuse) if refuse else None
    await until(lambda: operator.leads and operator.gate.watches >= KINDS_WATCHED, "a leader")
    return operator


async def pair(made: World, percent: float = 100.0) -> tuple[Operator, Operator]:
    """Return two operators that watch, first the one that leads."""
    both = [await made.operator(percent) for _ in range(2)]
    await until(lambda: all(each.gate.watches >= KINDS_WATCHED for each in both), "two that watch")
    await until(lambda: any(each.leads for each in both), "a leader")
    both.sort(key=lambda each: not each.leads)
    return both[0], both[1]


def refusing(count: int) -> Before:
    """Return what answers the first *count* writes of each object with a conflict that there is not."""
    asked: Counter[str] = Counter()

    async def refuse(write: Write) -> web.Response | None:
        name = json.loads(write.body).get("metadata", {}).get("name", "") if write.method == "POST" else ""
        asked[f"{write.path}/{name}"] += 1
        if asked[f"{write.path}/{name}"] > count:
            return None
        said = {"kind": "Status", "code": 409, "reason": "Conflict", "message": "refused by the test"}
        return web.json_response(said, status=409)

    return refuse


async def break_all(made: World, nodes: list[str]) -> None:
    """Break a GPU of each of *nodes* at the same time."""
    await asyncio.gather(*(made.say(name, "fail") for name in nodes))


async def all_out(made: World, count: int = FAULTS) -> dict[str, Any]:
    """Wait until *count* nodes are out and people were told, and return the picture of it."""

    async def are_out() -> bool:
        return len(await made.out()) == count

    async def are_told() -> bool:
        return len((await made.picture())["events"]) >= count

    await until(are_out, f"{count} quarantines")
    await until(are_told, f"{count} events")
    return await made.picture()


async def move_a_gang(made: World) -> dict[str, Any]:
    """Break a node under a job, wait until the job runs elsewhere and people were told, and return the picture of it."""
    nodes = await made.add_nodes(GANG + 1)
    await made.add_job("train", GANG)
    await made.say(nodes[0], "fail")
    await until(lambda: made.has_moved("train", GANG, nodes[0]), "the job, elsewhere")

    async def are_told() -> bool:
        return len((await made.picture())["events"]) >= 3

    await until(are_told, "three events")
    return await made.picture()
