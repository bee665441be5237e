"""Who asks: the API server's word for the token that a pod shows."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from wheeltapper import kubernetes_names as names
from wheeltapper_hooks.agent.api_server import ApiServer, Json

REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"

TOKEN_BYTES = 8192
"""Far longer than any token of a service account; what is longer is not worth a question."""

WAITING_MAX = 32
"""Pods whose tokens may wait for the API server: a node starts a few at a time, and a flood stops here."""

_EXTRA = "authentication.kubernetes.io"
_ACCOUNT = "system:serviceaccount:"


class NotAPod(PermissionError):  # noqa: N818 - it reads as what it is
    """The token is no pod's, or not for us, or of a pod on another node."""


class TooMany(OSError):  # noqa: N818 - likewise
    """Too many wait for the API server's word already."""


@dataclass(frozen=True, slots=True)
class Asker:
    """The pod that asks; ``node`` is where the API server has bound it, empty where it does not say (before 1.30)."""

    namespace: str
    name: str
    uid: str
    node: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class PodTokens:
    """Has tokens reviewed, one at a time over one connection."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def asker(self, token: str) -> Asker:
        """Return the pod that *token* was made for.

        Raises:
            NotAPod: it is no pod's. OSError: the API server cannot be asked.
        """
        if not token or len(token) > TOKEN_BYTES or not token.isascii():
            raise NotAPod("that is no token")
        if self._waiting >= WAITING_MAX:
            raise TooMany("too many pods ask at once")
        self._waiting += 1
        try:
            async with self._turn:
                said = await asyncio.to_thread(self._server.request, "POST", REVIEWS, review(token))
        finally:
            self._waiting -= 1
        return asker_of(said)


def review(token: str) -> Json:
    """Return the question to the API server: a token counts only when it was made for us."""
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token, "audiences": [names.AUDIENCE]},
    }


def asker_of(said: Json) -> Asker:
    """Return the pod that a reviewed token is bound to; raise ``NotAPod`` when it is bound to none."""
    status = said.get("status") or {}
    if not status.get("authenticated") or names.AUDIENCE not in (status.get("audiences") or ()):
        raise NotAPod(f"the token is not good: {status.get('error') or 'it was not made for us'}")
    user = status.get("user") or {}
    account, extra = str(user.get("username") or ""), user.get("extra") or {}
    name, uid, node = (_first(extra, f"{_EXTRA}/{word}") for word in ("pod-name", "pod-uid", "node-name"))
    if not account.startswith(_ACCOUNT) or not name or not uid:
        raise NotAPod("the token is bound to no pod")
    return Asker(account[len(_ACCOUNT) :].partition(":")[0], name, uid, node)


def _first(extra: Json, key: str) -> str:
    values = extra.get(key) or [""]
    return str(values[0])
