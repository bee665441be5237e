"""How soon a fault becomes a taint, and what a large cluster costs: real agents, operator and API server on this machine.

The floor, in the same run: one PATCH of a node until the same watcher sees it.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.bench import kubernetes_scale
from tests.bench.harness import Figure, compared, progress
from tests.bench.kubernetes_cluster import (
    NODES,
    AgentInPod,
    Operator,
    Watcher,
    add_healths,
    agents,
    put_back,
    say,
    until,
    watching,
    wipe,
    writes,
)
from tests.bench.spent import spent
from tests.integration.control_plane import ControlPlane, missing, started
from wheeltapper_operator.api import JSON_PATCH, Api

TRIALS = 1000
AGENTS, FAULTS = 50, 10
"""Agents at a time, and faults of each: a node remembers ten that a person has settled, and counts older ones again."""

NOISE_NODES, NOISE_A_SECOND = 100, 500

BURST, OF = 750, 1500
FLOODED, LINES = 50, 1000

FLOOR = "a bare PATCH, until the watcher sees it"


def figures(_runs: int) -> Iterator[Figure]:
    """Yield the delays from fault to taint, idle, in noise, in a burst and in a flood, and the cost of a large cluster."""
    if why := missing():
        print(f"The figures of Kubernetes are left out: {why}.")
        return
    print(f"{os.cpu_count()} processors, of which {os.getloadavg()[0]:.1f} are asked for by others.")
    with tempfile.TemporaryDirectory(prefix="wheeltapper-bench-") as place, started(Path(place)) as plane:
        found = asyncio.run(_delays(plane))
        yield from found
    with tempfile.TemporaryDirectory(prefix="wheeltapper-bench-") as place, started(Path(place)) as plane:
        with spent("The large cluster", plane.processes):
            found = asyncio.run(kubernetes_scale.measured(plane))
        yield from found


async def _delays(plane: ControlPlane) -> list[Figure]:
    api = await Api.connect(plane.kubeconfig)
    await api.post("/api/v1/namespaces", {"metadata": {"name": "wheeltapper"}})
    operator = Operator(plane, plane.folder / "operator")
    try:
        await until(lambda: operator.works)
        processes = {**plane.processes, "the operator": operator.process.pid}
        found = []
        with spent("Faults, idle", processes):
            faults, floor = await _trials(plane, api, "idle")
        found.append(compared("fault_to_taint_ms", faults, "ms", FLOOR, floor, 0.5))
        found.append(compared("fault_to_taint_p99_ms", faults, "ms", FLOOR, floor, 0.99))
        await wipe(api)
        with spent("Faults, in noise", processes):
            async with _noise(plane, api):
                faults, floor = await _trials(plane, api, "noise")
        found.append(compared("fault_to_taint_noise_p99_ms", faults, "ms", FLOOR, floor, 0.99))
        await wipe(api)
        with spent("The burst", processes):
            found.append(await _burst(api))
        with spent("The flood", processes):
            found += await _flood(plane, api)
    finally:
        operator.end()
        await api.close()
    return found


async def _trials(plane: ControlPlane, api: Api, title: str) -> tuple[list[float], list[float]]:
    """Return the milliseconds from a line in a kernel log to the taint, and those of the floor, trial by trial."""
    faults: list[float] = []
    floor: list[float] = []
    await api.post(NODES, {"metadata": {"name": "floor"}})
    for batch in range(TRIALS // (AGENTS * FAULTS)):
        called = [f"{title}-{batch}-{number}" for number in range(AGENTS)]
        folder = plane.folder / f"{title}-{batch}"
        async with agents(plane, api, folder, called) as nodes, watching(api) as watcher:
            for fault in range(FAULTS):
                for node in nodes:
                    faults.append(await _fault(api, watcher, node, f"0000:{fault + 1:02x}:00"))
                    floor.append(await _bare(api, watcher))
                    progress(f"fault to taint, {title}", len(faults), TRIALS)
    return faults, floor


async def _fault(api: Api, watcher: Watcher, node: AgentInPod, gpu: str) -> float:
    began = time.perf_counter()
    node.lose_gpu(gpu)
    await watcher.until(lambda: node.name in watcher.tainted)
    took = (watcher.tainted[node.name] - began) * 1000
    await put_back(api, node.name)
    await watcher.until(lambda: node.name not in watcher.recorded)
    return took


async def _bare(api: Api, watcher: Watcher) -> float:
    taint = [{"key": "wheeltapper.dev/unhealthy", "value": "none", "effect": "NoSchedule"}]
    began = time.perf_counter()
    await api.patch(f"{NODES}/floor", [{"op": "add", "path": "/spec/taints", "value": taint}], JSON_PATCH)
    await watcher.until(lambda: "floor" in watcher.tainted)
    took = (watcher.tainted["floor"] - began) * 1000
    await api.patch(f"{NODES}/floor", [{"op": "remove", "path": "/spec/taints"}], JSON_PATCH)
    await watcher.until(lambda: "floor" not in watcher.tainted)
    return took


@asynccontextmanager
async def _noise(plane: ControlPlane, api: Api) -> AsyncIterator[None]:
    await add_healths(api, (f"noise-{number}" for number in range(NOISE_NODES)))
    noise = _start_noise(plane)
    try:
        async with watching(api) as watcher:
            await watcher.until(lambda: watcher.seen > NOISE_A_SECOND)
            seen, began = watcher.seen, time.monotonic()
            await asyncio.sleep(10.0)
            print(f"The noise is {(watcher.seen - seen) / (time.monotonic() - began):.0f} node events a second.")
        yield
    finally:
        noise.kill()
        noise.wait()


def _start_noise(plane: ControlPlane) -> subprocess.Popen[bytes]:
    words = ["-m", "tests.bench.node_noise", str(plane.kubeconfig), str(NOISE_NODES), str(NOISE_A_SECOND)]
    return subprocess.Popen(["setpriv", "--pdeathsig=KILL", sys.executable, *words], stdin=subprocess.DEVNULL)


async def _burst(api: Api) -> Figure:
    """Measure from the first of many faults at once to the last taint; the floor is the faults' own writes."""
    called = [f"burst-{number}" for number in range(OF)]
    await add_healths(api, called)
    room = asyncio.Semaphore(32)

    async def fail(name: str) -> None:
        async with room:
            await say(api, name, "fail")

    async with watching(api) as watcher:
        began = time.perf_counter()
        await asyncio.gather(*(fail(name) for name in called[:BURST]))
        told = time.perf_counter() - began
        await watcher.until(lambda: len(watcher.tainted) == BURST)
        took = max(watcher.tainted.values()) - began
    await _quiet(api)
    await wipe(api)
    return _figure(f"burst_{BURST}_of_{OF}_s", took, "s", "the faults' own writes", told, BURST)


async def _flood(plane: ControlPlane, api: Api) -> list[Figure]:
    """Measure from the first of 50,000 kernel lines to the last taint, and what was written for it in all.

    Writes are those to the node and to its health; the event for people is written beside them, at its own pace.
    """
    called = [f"flood-{number}" for number in range(FLOODED)]
    async with agents(plane, api, plane.folder / "flood", called) as nodes, watching(api) as watcher:
        before = await writes(api)
        began = time.perf_counter()
        await asyncio.to_thread(_pour, nodes)
        poured = time.perf_counter() - began
        await watcher.until(lambda: len(watcher.tainted) == FLOODED)
        took = max(watcher.tainted.values()) - began
        await _quiet(api)
        after = await writes(api)
    await wipe(api)
    spent = {kind: (after[kind] - before.get(kind, 0.0)) / FLOODED for kind in ("nodes", "nodehealths", "events")}
    lines, told = FLOODED * LINES, spent.pop("events")
    return [
        _figure(f"flood_{lines}_events_s", took, "s", "the lines' own writes", poured, lines),
        _figure("flood_writes_a_node", sum(spent.values()), "writes", "lines a node", LINES, FLOODED),
        _figure("flood_words_a_node", told, "events", "lines a node", LINES, FLOODED),
    ]


def _pour(nodes: list[AgentInPod]) -> None:
    for line in range(LINES // 100):
        for node in nodes:
            usec = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
            first = line * 100 + 1
            text = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
            with node.kmsg_file.open("a") as log:
                log.write("".join(f"4,{number},{usec},-;{text}\n" for number in range(first, first + 100)))


async def _quiet(api: Api) -> None:
    """Wait until nothing but leases was written for two seconds."""
    last, since = await writes(api), time.monotonic()
    while time.monotonic() - since < 2.0:
        await asyncio.sleep(0.5)
        now = await writes(api)
        if {**now, "leases": 0.0} != {**last, "leases": 0.0}:
            last, since = now, time.monotonic()


def _figure(name: str, value: float, unit: str, baseline: str, against: float, n: int) -> Figure:
    return Figure(name, round(value, 3), unit, baseline, round(against, 3), round(value / against, 3), n)
