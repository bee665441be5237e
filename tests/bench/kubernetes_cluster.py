"""A real API server with a real operator and real agents on it, and a watcher that knows none of them."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from tests.integration.control_plane import ControlPlane
from tests.integration.node import Node
from tests.unit.make import BOOT, xid79
from wheeltapper import codec
from wheeltapper import kubernetes_names as names
from wheeltapper.errors import SchedulerError
from wheeltapper_operator.api import JSON_PATCH, MERGE_PATCH, Api, path_of

NODES = path_of("v1", "nodes")
HEALTHS = path_of(names.GROUP, "nodehealths")
PATIENCE_S = 300.0

MEMORY = "/dev/shm"
"""Where the agents' run directories lie: in memory, as on a node and in the chart."""

CONFIG = """
[policy]
mode = "full"
[policy.budget]
max_percent = 100
domain_max_percent = 100
"""

WRITES = re.compile(
    r'^apiserver_request_total\{.*,resource="(?P<resource>[^"]*)".*verb="(?:POST|PUT|PATCH|DELETE)".*\} (?P<count>\S+)$',
    re.MULTILINE,
)


class AgentInPod(Node):
    """A node whose agent speaks to the API server of a test, and looks at nothing but its kernel log."""

    plane: ControlPlane

    def start(self) -> None:
        """Start the agent, and do not wait."""
        words = ["-m", "tests.bench.agent_in_a_pod", str(self.plane.account), str(self.config_file)]
        with self.log_file.open("ab") as log:
            self.agent = subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", sys.executable, *words],
                env={**self.environment, **self.plane.environment}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip


class Operator:
    """A real one, at its real pace, in a process of its own."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        folder.mkdir()
        (folder / "wheeltapper.toml").write_text(CONFIG)
        self.log = folder / "log"
        self.began = time.monotonic()
        code = "from wheeltapper_operator.command import app; app()"
        words = ["run", "--kubeconfig", str(plane.kubeconfig), "--config", str(folder / "wheeltapper.toml")]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                ["setpriv", "--pdeathsig=KILL", sys.executable, "-c", code, *words],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env={"PATH": os.environ["PATH"], "HOME": str(folder), "KUBECONFIG": os.devnull},
            )  # fmt: skip

    @property
    def works(self) -> bool:
        """True when it leads and has seen the cluster."""
        if self.process.poll() is not None:
            raise RuntimeError(f"the operator has ended: {self.log.read_text()[-2000:]}")
        return "Looking after" in self.log.read_text()

    def memory_mb(self, what: str) -> float:
        """Return its VmRSS or VmHWM in MB."""
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"^{what}:\s+(\d+) kB", text, re.MULTILINE)
        assert found is not None
        return int(found[1]) * 1024 / 1e6

    def end(self) -> None:
        self.process.terminate()
        self.process.wait()


class Watcher:
    """When the taint of each node was first seen, and whether a record of ours is on it; by ``time.perf_counter``."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self.tainted: dict[str, float] = {}
        self.recorded: set[str] = set()
        self.seen = 0
        self._news = asyncio.Event()

    async def run(self, version: str) -> None:
        """Follow the nodes, for ever."""
        while True:
            with suppress(SchedulerError):
                async for event in self._api.watch(NODES, 600.0, resourceVersion=version):
                    self._see(event["object"], time.perf_counter())
                    version = event["object"]["metadata"]["resourceVersion"]

    def _see(self, node: dict[str, Any], now: float) -> None:
        self.seen += 1
        name = node["metadata"]["name"]
        if any(each["key"] == names.TAINT for each in node["spec"].get("taints") or ()):
            self.tainted.setdefault(name, now)
        else:
            self.tainted.pop(name, None)
        if names.QUARANTINE in (node["metadata"].get("annotations") or {}):
            self.recorded.add(name)
        else:
            self.recorded.discard(name)
        self._news.set()

    async def until(self, true: Callable[[], bool]) -> None:
        """Wait until what was seen makes *true* true."""
        ends = time.monotonic() + PATIENCE_S
        while not true():
            self._news.clear()
            waiting = asyncio.create_task(self._news.wait())
            await asyncio.wait({waiting}, timeout=10.0)
            waiting.cancel()
            if time.monotonic() > ends:
                raise RuntimeError(f"it did not come within {PATIENCE_S:g} s")


@asynccontextmanager
async def watching(api: Api) -> AsyncIterator[Watcher]:
    """A watcher from now on."""
    watcher = Watcher(api)
    version = (await api.get(NODES, limit=1))["metadata"]["resourceVersion"]
    task = asyncio.create_task(watcher.run(version))
    try:
        yield watcher
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def agents(plane: ControlPlane, api: Api, folder: Path, called: Iterable[str]) -> AsyncIterator[list[AgentInPod]]:
    """Nodes with an agent each, all of which have spoken: their first words are no part of any figure."""
    made = []
    with tempfile.TemporaryDirectory(prefix="wheeltapper-bench-", dir=MEMORY) as run:
        for name in called:
            AgentInPod.plane = plane
            agent = {"scheduler": "kubernetes", "run_dir": f"{run}/{name}"}
            node = AgentInPod(folder / name, {"agent": agent}, name)
            await api.post(NODES, {"metadata": {"name": name}})
            made.append(node)
        try:
            for node in made:
                node.start()
            await until(lambda: _have_spoken(api, made))
            yield made
        finally:
            for node in made:
                node.close()


async def _have_spoken(api: Api, made: list[AgentInPod]) -> bool:
    said = {each["metadata"]["name"]: each.get("status") for each in (await api.get(HEALTHS))["items"]}
    if not all((said.get(node.name) or {}).get("verdict") == "ok" for node in made):
        return False
    nodes = {each["metadata"]["name"]: each["status"].get("conditions") for each in (await api.get(NODES))["items"]}
    return all(any(each["reason"] == "Healthy" for each in nodes.get(node.name) or ()) for node in made)


async def until(true: Callable[[], Any]) -> None:
    """Wait until *true*, which may be asynchronous, is."""
    ends = time.monotonic() + PATIENCE_S
    while True:
        found = true()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return
        if time.monotonic() > ends:
            raise RuntimeError(f"it did not come within {PATIENCE_S:g} s")
        await asyncio.sleep(0.1)


async def add_healths(api: Api, called: Iterable[str]) -> None:
    """Make nodes with a word of their agents, who are not there."""
    room = asyncio.Semaphore(32)

    async def add(name: str) -> None:
        async with room:
            await api.post(NODES, {"metadata": {"name": name}})
            await api.post(HEALTHS, {"apiVersion": names.GROUP, "kind": "NodeHealth", "metadata": {"name": name}})
            await say(api, name, "ok")

    await asyncio.gather(*(add(name) for name in called))


async def say(api: Api, name: str, verdict: str) -> None:
    """Have the agent of a node say *verdict*."""
    findings = [codec.dump(xid79(name, at=time.time()))] if verdict == "fail" else []
    status = {"verdict": verdict, "bootID": BOOT, "since": time.time(), "sentence": verdict, "findings": findings}
    await api.patch(f"{HEALTHS}/{name}/status", {"status": status}, MERGE_PATCH)


async def put_back(api: Api, name: str) -> None:
    """Take taint and cordon off a node, as a person does."""
    taints = (await api.get(f"{NODES}/{name}"))["spec"].get("taints") or []
    kept = [each for each in taints if each["key"] != names.TAINT]
    steps = [
        {"op": "add", "path": "/spec/taints", "value": kept},
        {"op": "add", "path": "/spec/unschedulable", "value": False},
    ]
    await api.patch(f"{NODES}/{name}", steps, JSON_PATCH)


async def writes(api: Api) -> dict[str, float]:
    """Return how many writes of each kind of object the API server has counted."""
    counted: dict[str, float] = {}
    for found in WRITES.finditer(await api.text("/metrics")):
        counted[found["resource"]] = counted.get(found["resource"], 0.0) + float(found["count"])
    return counted


async def wipe(api: Api) -> None:
    """Take all nodes, their agents' words and events away."""
    for path in (HEALTHS, NODES, path_of("v1", "events", "default")):
        await api.request("DELETE", path)
