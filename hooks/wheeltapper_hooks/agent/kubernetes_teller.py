"""Tells a Kubernetes cluster how this node is: its NodeHealth, which the operator acts on, and a condition for people.

Nothing is written but a change, so a cluster at rest costs its API server nothing.
"""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from datetime import datetime, timezone
from urllib.parse import quote

from wheeltapper import codec
from wheeltapper import kubernetes_names as names
from wheeltapper.verdict import State, Verdict
from wheeltapper_hooks.agent.api_server import MERGE, STRATEGIC, ApiServer, Json, Refused
from wheeltapper_hooks.agent.boot import uptime
from wheeltapper_hooks.agent.leave import FINDINGS_MAX
from wheeltapper_hooks.agent.watch import Watch

log = logging.getLogger(__name__)

BACKOFF_S = 0.5
BACKOFF_MAX_S = 60.0

ASIDE_S = 0.2
"""Seconds for which the condition, which people read, makes way for what follows from the NodeHealth: the operator then
writes its taint to the same node, and of two such writes at once the API server does one over again."""

MESSAGE_MAX = 1024
"""Characters of a sentence in the cluster: as many as an event may have."""

_STATUS = {State.FAIL: "True", State.UNKNOWN: "Unknown"}


class KubernetesTeller:
    """Speaks for one node to the API server."""

    def __init__(self, watch: Watch, server: ApiServer) -> None:
        self._watch = watch
        self._server = server
        self._path = f"/apis/{names.GROUP}/nodehealths"
        self._told: Json | None = None
        self._shown: Json | None = None

    async def tell_for_ever(self) -> None:
        """Write what changed, for ever; what the server did not take is written again."""
        pause = BACKOFF_S
        while True:
            self._watch.turned.clear()
            try:
                await self._tell_and_show(self._watch.verdict)
            except OSError as error:
                log.warning("The cluster was not told how this node is: %s.", error)
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, not a secret
                pause = min(pause * 2, BACKOFF_MAX_S)
                continue
            pause = BACKOFF_S
            await self._watch.turned.wait()

    async def _tell_and_show(self, verdict: Verdict) -> None:
        since = time.time() - uptime() + self._watch.turned_at
        if await asyncio.to_thread(self._tell, verdict, since) and await self._turns_within(ASIDE_S):
            return  # what it is now goes first
        await asyncio.to_thread(self._show, verdict, f"/api/v1/nodes/{quote(verdict.node)}/status")

    async def _turns_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._watch.turned.wait(), seconds)
        except asyncio.TimeoutError:
            return False
        return True

    def _tell(self, verdict: Verdict, since: float) -> bool:
        """Have the node's NodeHealth say *verdict*; return whether it said something else."""
        own = f"{self._path}/{quote(verdict.node)}"
        if self._told is None:
            self._told = self._before(own)
        status = health_status(verdict, since, self._told)
        if status == self._told:
            return False
        # The whole status, with a null for nothing: a merge patch adds to what is there.
        self._server.request("PATCH", f"{own}/status", {"status": status}, MERGE)
        self._told = status
        return True

    def _show(self, verdict: Verdict, path: str) -> None:
        """Have the node's condition say *verdict*; an agent before us may have died before it did."""
        if self._shown is None:
            # A patch of nothing changes nothing and returns the node, and asks for no right to read nodes.
            self._shown = _ours(self._server.request("PATCH", path, {}, STRATEGIC))
        shown = condition(verdict, time.time(), self._shown)
        if _words(shown) != _words(self._shown):
            self._server.request("PATCH", path, {"status": {"conditions": [shown]}}, STRATEGIC)
            self._shown = shown

    def _before(self, own: str) -> Json:
        """Return what the cluster holds of us, and make our object where there is none."""
        try:
            found = self._server.request("GET", own)
        except Refused as error:
            if error.status != 404:
                raise
            meta = {"name": self._watch.node}
            found = self._server.request(
                "POST", self._path, {"apiVersion": names.GROUP, "kind": "NodeHealth", "metadata": meta}
            )
        status: Json = found.get("status") or {}
        return status


def health_status(verdict: Verdict, since: float, before: Json) -> Json:
    """Return the status of a NodeHealth; *since* (Unix seconds) is when our process saw this state begin.

    The same state of the same boot goes on from what stood there *before*: a new agent is no new state.
    """
    goes_on = (before.get("verdict"), before.get("bootID")) == (verdict.state.value, verdict.boot_id)
    return {
        "verdict": verdict.state.value,
        "bootID": verdict.boot_id,
        "since": min(round(since, 3), before["since"]) if goes_on and "since" in before else round(since, 3),
        "sentence": str(verdict)[:MESSAGE_MAX],
        "findings": [_without_nulls(codec.dump(each)) for each in verdict.findings[:FINDINGS_MAX]],
    }


def _without_nulls(record: Json) -> Json:
    """Return *record* as a merge patch leaves it: what comes back must be what was sent, or each new agent writes."""
    return {
        key: _without_nulls(value) if isinstance(value, dict) else value
        for key, value in record.items()
        if value is not None
    }


def condition(verdict: Verdict, now: float, before: Json) -> Json:
    """Return the node's condition: True is a problem, as everywhere in Kubernetes but in Ready.

    *before* is the one that stands there, or empty; while its status stays, so does the time of its last transition.
    """
    stamp = datetime.fromtimestamp(now, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    status = _STATUS.get(verdict.state, "False")
    stays = before.get("status") == status and before.get("lastTransitionTime")
    return {
        "type": names.CONDITION,
        "status": status,
        "reason": reason(verdict),
        "message": str(verdict)[:MESSAGE_MAX],
        "lastHeartbeatTime": stamp,
        "lastTransitionTime": before["lastTransitionTime"] if stays else stamp,
    }


def _ours(node: Json) -> Json:
    """Return our condition on *node*; an empty one where there is none."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each.get("type") == names.CONDITION), {})


def _words(shown: Json) -> tuple[object, ...]:
    return tuple(shown.get(key) for key in ("status", "reason", "message"))


def reason(verdict: Verdict) -> str:
    """Return one CamelCase word for *verdict*.

    >>> reason(Verdict("n1", State.OK, 0.0, 1.0, "b"))
    'Healthy'
    """
    if verdict.state is State.OK:
        return "Healthy"
    if not verdict.findings:
        return "NotJudged" if verdict.state is State.UNKNOWN else verdict.state.value.capitalize()
    first = verdict.findings[0]
    kind = first.label.partition("/")[2]
    code = re.match(r"s?xid=\d+", first.detail)
    named = code.group().replace("=", "").capitalize() if code else ""
    return named + ("" if named and kind == "gpu_xid" else "".join(word.capitalize() for word in kind.split("_")))
