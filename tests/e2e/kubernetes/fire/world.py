"""A cluster without machines: nodes, their agents' words, jobs with a kubelet played, and operators that can be killed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from tests.e2e.kubernetes.fire.gate import Gate, Write
from tests.integration.control_plane import ControlPlane
from tests.unit.make import BOOT, xid79
from wheeltapper import codec
from wheeltapper import kubernetes_names as names
from wheeltapper.errors import SchedulerError
from wheeltapper_operator.api import MERGE_PATCH, Api, ApiError, path_of

NODES = path_of("v1", "nodes")
HEALTHS = path_of(names.GROUP, "nodehealths")
PODS = path_of("v1", "pods", "team")
JOBS = path_of("batch/v1", "jobs", "team")
INTERRUPTIONS = path_of(names.GROUP, "interruptions", "team")
JOB_LABEL = "batch.kubernetes.io/job-name"

PATIENCE_S = 90.0

HURRY = {
    "leader.LEASE_S": 3,
    "leader.RENEW_S": 2.0,
    "leader.TRY_S": 0.3,
    "reflector.SILENCE_S": 6.0,
    "reflector.BACKOFF_MAX_S": 2.0,
    "endings.SETTLE_S": 0.5,
    "keeper.CONFLICT_S": 0.5,
    "jobkeeper.MOVE_S": 0.3,
    "work.BACKOFF_MAX_S": 2.0,
}
"""Waits of minutes as seconds; a lease still lasts longer than its holder believes in it."""

CONFIG = """
[policy]
mode = "full"
[policy.budget]
max_percent = {percent}
domain_max_percent = 100
"""


async def until(condition: Callable[[], Any], what: str, seconds: float = PATIENCE_S) -> Any:
    """Wait until *condition*, which may be asynchronous, is true, and return it; fail and say *what* did not come."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if isinstance(found, Awaitable):
            found = await found
        if found:
            return found
        assert time.monotonic() < deadline, f"{what} did not come within {seconds:g} s"
        await asyncio.sleep(0.05)


@dataclass
class Operator:
    """A real operator's process behind a gate of its own."""

    gate: Gate
    process: subprocess.Popen[bytes]
    log: Path

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it without a word, as a machine that loses power does."""
        with suppress(ProcessLookupError):
            os.kill(self.process.pid, signal.SIGCONT)
        self.process.kill()
        self.process.wait()

    @property
    def leads(self) -> bool:
        return "leads." in self.log.read_text() and self.process.poll() is None


class World:
    """What tests do to the cluster; *api* goes around all gates."""

    def __init__(self, plane: ControlPlane, api: Api, folder: Path) -> None:
        self.plane = plane
        self.api = api
        self.folder = folder
        self._stack = AsyncExitStack()
        self._count = 0

    async def operator(self, percent: float = 100.0) -> Operator:
        """Start one more operator."""
        self._count += 1
        place = Path(tempfile.mkdtemp(dir=self.folder, prefix=f"operator-{self._count}-"))
        (place / "wheeltapper.toml").write_text(CONFIG.format(percent=percent))
        gate = await self._stack.enter_async_context(Gate(self.plane, place / "kubeconfig").standing())
        made = Operator(gate, _process(place), place / "log")
        self._stack.callback(made.kill)
        return made

    async def close(self) -> None:
        await self._stack.aclose()

    async def restart_server(self, before: Callable[[], None] = lambda: None) -> None:
        """Kill the API server, do what is to be done *before* it comes back, and start it again."""
        self.plane.server.kill()
        await asyncio.to_thread(before)
        # By this thread, with which it must live; only the waiting is done elsewhere.
        self.plane.server.start()
        await asyncio.to_thread(self.plane.wait)
        await until(self._has_read_all, "all that the new server stores")

    async def _has_read_all(self) -> bool:
        """False while a server that says that it is ready still reads from etcd, and refuses us meanwhile."""
        try:
            for path in (NODES, HEALTHS, PODS, JOBS, INTERRUPTIONS):
                await self.items(path)
        except ApiError as error:
            if error.status != HTTPStatus.TOO_MANY_REQUESTS:
                raise
            return False
        return True

    async def add_nodes(self, count: int) -> list[str]:
        """Make nodes of one pool, each with somebody else's taint and a healthy agent."""
        found = [f"n{number}" for number in range(1, count + 1)]
        for name in found:
            taint = {"key": "example.com/theirs", "value": "1", "effect": "PreferNoSchedule"}
            node = {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": {"taints": [taint]}}
            await self.api.post(NODES, node)
            await self.api.patch(f"{NODES}/{name}/status", {"status": {"nodeInfo": {"bootID": BOOT}}})
            await self.api.post(HEALTHS, {"apiVersion": names.GROUP, "kind": "NodeHealth", "metadata": {"name": name}})
            await self.say(name, "ok")
        return found

    async def say(self, node: str, verdict: str) -> None:
        """Have the agent of *node* say *verdict*; ``fail`` with a GPU that fell off the bus."""
        findings = [codec.dump(xid79(node, at=time.time()))] if verdict == "fail" else []
        status = {"verdict": verdict, "bootID": BOOT, "since": time.time(), "sentence": verdict, "findings": findings}
        await self.api.patch(f"{HEALTHS}/{node}/status", {"status": status}, MERGE_PATCH)

    async def out(self) -> list[str]:
        """Return the nodes with our taint."""
        return [item["metadata"]["name"] for item in await self.items(NODES) if is_out(item)]

    async def items(self, path: str) -> list[dict[str, Any]]:
        return list((await self.api.get(path))["items"])

    async def add_job(self, name: str, pods: int) -> None:
        """Make a job of so many *pods*, and wait until they run, each on a node of its own."""
        spec = {
            "parallelism": pods,
            "completions": pods,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "x"}]}},
        }
        await self.api.post(JOBS, {"metadata": {"name": name}, "spec": spec})
        await until(lambda: self._all_run(name, pods), f"all pods of {name}")

    async def _all_run(self, job: str, count: int) -> bool:
        found = await self.pods(job)
        return len(found) == count and all(each["status"].get("phase") == "Running" for each in found)

    async def pods(self, job: str) -> list[dict[str, Any]]:
        return list((await self.api.get(PODS, labelSelector=f"{JOB_LABEL}={job}"))["items"])

    async def has_moved(self, job: str, count: int, away_from: str) -> bool:
        """True when *job* was interrupted, runs in full again and not on *away_from*, and no order stands."""
        said = (await self.api.get(f"{JOBS}/{job}"))["metadata"].get("annotations", {})
        if names.ATTEMPTS not in said or names.ORDER in said or not await self._all_run(job, count):
            return False
        return away_from not in {each["spec"].get("nodeName") for each in await self.pods(job)}

    async def play_kubelet(self) -> None:
        """Place each pod on the first node that may have one more, let it run, and let it go when it is asked to."""
        while True:
            with suppress(SchedulerError):
                await self._look_after_pods()
            await asyncio.sleep(0.1)

    async def _look_after_pods(self) -> None:
        pods = await self.items(PODS)
        load = Counter(each["spec"].get("nodeName") for each in pods)
        free = [node["metadata"]["name"] for node in await self.items(NODES) if not node["spec"].get("unschedulable")]
        for pod in pods:
            path = f"{PODS}/{pod['metadata']['name']}"
            if "deletionTimestamp" in pod["metadata"]:
                await self.api.delete(path, {"gracePeriodSeconds": 0})
            elif not pod["spec"].get("nodeName"):
                node = min(free, key=lambda name: (load[name], name))
                load[node] += 1
                target = {"metadata": {"name": pod["metadata"]["name"]}, "target": {"kind": "Node", "name": node}}
                await self.api.post(f"{path}/binding", target)
                await self.api.patch(f"{path}/status", {"status": {"phase": "Running"}})

    async def picture(self) -> dict[str, Any]:
        """Return all that operators have made of the cluster, without times, numbers and whose turn it was."""
        return {
            "nodes": {item["metadata"]["name"]: _node(item) for item in await self.items(NODES)},
            "interruptions": sorted(_interruption(each) for each in await self.items(INTERRUPTIONS)),
            "jobs": {each["metadata"]["name"]: _job(each) for each in await self.items(JOBS)},
            "events": sorted(await self._events()),
        }

    async def _events(self) -> Iterable[tuple[str, str, int]]:
        found = [
            *await self.items(path_of("v1", "events", "default")),
            *await self.items(path_of("v1", "events", "team")),
        ]
        ours = [each for each in found if (each.get("source") or {}).get("component") == names.MANAGER]
        return [(each["involvedObject"]["name"], each["reason"], each["count"]) for each in ours]

    async def wipe(self) -> None:
        """Take everything away that a test has made."""
        for path in (JOBS, PODS, INTERRUPTIONS, HEALTHS, NODES, path_of("v1", "events", "team")):
            body = {"propagationPolicy": "Background"} if path == JOBS else {"gracePeriodSeconds": 0}
            await self.api.request("DELETE", path, body=body)
        await self.api.request("DELETE", path_of("v1", "events", "default"))
        with suppress(ApiError):
            await self.api.delete(path_of("coordination.k8s.io/v1", "leases", "wheeltapper", names.LEASE))

    async def is_empty(self) -> bool:
        return not (await self.items(PODS) or await self.items(JOBS))


class Witness:
    """Watches the nodes by itself: how many were out at most, and how often each was taken out."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._out: dict[str, bool] = {}
        self.most = 0
        self.times: Counter[str] = Counter()

    async def run(self, version: str) -> None:
        """Follow every version of every node from *version* on, for ever.

        A server that was started anew knows nothing of older versions: then all nodes are looked at as they are.
        """
        while True:
            with suppress(SchedulerError):
                try:
                    async for event in self._api.watch(NODES, 600.0, resourceVersion=version):
                        version = event["object"]["metadata"]["resourceVersion"]
                        self._see(event)
                except ApiError as error:
                    if error.is_gone:
                        version = await self._look_anew()
            await asyncio.sleep(0.1)

    async def _look_anew(self) -> str:
        found = await self._api.get(NODES)
        for node in found["items"]:
            self._see({"type": "MODIFIED", "object": node})
        version: str = found["metadata"]["resourceVersion"]
        return version

    def _see(self, event: dict[str, Any]) -> None:
        name = event["object"]["metadata"]["name"]
        now = event["type"] != "DELETED" and is_out(event["object"])
        self.times[name] += now and not self._out.get(name, False)
        self._out[name] = now
        self.most = max(self.most, sum(self._out.values()))


@asynccontextmanager
async def world(plane: ControlPlane, folder: Path) -> AsyncIterator[World]:
    """A cluster with nothing in it, and a kubelet; all that is made in the block is taken away again."""
    api = await Api.connect(plane.kubeconfig)
    made = World(plane, api, folder)
    # An event that an operator was sending when it was killed may have come after the last test's end.
    await made.wipe()
    kubelet = asyncio.create_task(made.play_kubelet())
    try:
        yield made
    finally:
        await made.close()
        await made.wipe()
        await until(made.is_empty, "the end of all pods")
        kubelet.cancel()
        await asyncio.gather(kubelet, return_exceptions=True)
        await api.close()


def connections(port: int) -> int:
    """How many sockets of this process are connected to *port*, of whichever side of a close."""
    own = set()
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            own.add(str(entry.readlink()))
    rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2].endswith(f":{port:04X}") and f"socket:[{row[9]}]" in own for row in rows)


@asynccontextmanager
async def witnessed(made: World) -> AsyncIterator[Witness]:
    """An independent watcher of the nodes from now on."""
    version = (await made.api.get(NODES))["metadata"]["resourceVersion"]
    witness = Witness(made.api)
    task = asyncio.create_task(witness.run(version))
    try:
        yield witness
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _process(place: Path) -> subprocess.Popen[bytes]:
    words = ["run", "--kubeconfig", str(place / "kubeconfig"), "--config", str(place / "wheeltapper.toml")]
    module = "tests.e2e.kubernetes.fire.hasty_operator"
    environment = {"PATH": os.environ["PATH"], "HOME": str(place), "KUBECONFIG": os.devnull}
    with (place / "log").open("wb") as log:
        return subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", sys.executable, "-m", module, json.dumps(HURRY), *words],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment,
        )  # fmt: skip


def is_quarantine(write: Write) -> bool:
    """True for the one write that takes a node out."""
    return write.method == "PATCH" and write.path.startswith(f"{NODES}/")


def is_out(node: dict[str, Any]) -> bool:
    """True when *node* has our taint."""
    return any(each["key"] == names.TAINT for each in node["spec"].get("taints") or ())


def _node(item: dict[str, Any]) -> dict[str, Any]:
    said = item["metadata"].get("annotations") or {}
    return {
        "cordoned": item["spec"].get("unschedulable", False),
        "taints": sorted(f"{each['key']}={each.get('value')}" for each in item["spec"].get("taints") or ()),
        "quarantine": _timeless(said.get(names.QUARANTINE, "")),
        "history": _timeless(said.get(names.HISTORY, "")),
    }


def _interruption(item: dict[str, Any]) -> tuple[Any, ...]:
    spec = item["spec"]
    return spec["job"], spec["attempt"], spec["label"], spec["node"], spec["decision"], spec["confirmed"]


def _job(item: dict[str, Any]) -> dict[str, Any]:
    said = item["metadata"].get("annotations") or {}
    kept = {key: _timeless(said.get(key, "")) for key in (names.ORDER, names.ATTEMPTS, names.EXCLUDED, names.LABEL)}
    return {"suspended": item["spec"].get("suspend", False), **kept}


def _timeless(text: str) -> str:
    return re.sub(r"at=\S+Z|\d{9,}(\.\d+)?", "TIME", text)
