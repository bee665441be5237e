"""The API server as plain JSON: one request, one answer, one kind of error.

The official client brings configuration, authentication and transport; its models are left out, because reading a list
of 40,000 pods into them takes a minute and two gigabytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import orjson
from kubernetes.aio import client, config
from kubernetes.aio.config import ConfigException

from wheeltapper.errors import SchedulerDown, SchedulerError

Json = dict[str, Any]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

SESSION = {"trust_env": False}
"""Else aiohttp reads netrc and the environment anew for each request, in two threads: a third of our processor time."""

REQUEST_S = 30.0
"""Seconds to wait for one answer; a page of 500 nodes takes a second on a busy server."""


class ApiError(SchedulerError):
    """The API server refused. ``status`` is the HTTP status, ``reason`` its word for it (``NotFound``)."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{reason or status}: {message}")
        self.status = status
        self.reason = reason

    @property
    def is_conflict(self) -> bool:
        """True when the object was changed by somebody else: read it again and think again."""
        return self.status in {409, 422}

    @property
    def is_gone(self) -> bool:
        """True when the server no longer has the version that was asked for: list again."""
        return self.status == 410


class Silence(SchedulerDown):
    """Nothing came from a watch, not even a bookmark: it is dead, or nothing happens to the kind that it watches."""


class Api:
    """One API server. Close it when done."""

    def __init__(self, settings: client.Configuration) -> None:
        self._client = client.ApiClient(settings)
        self.host: str = settings.host
        self.writes = 0
        self.one_page = asyncio.Semaphore(1)

    @classmethod
    async def connect(cls, kubeconfig: Path | None = None) -> Api:
        """Return the server that *kubeconfig* names, or the one whose pod we are.

        Raises:
            SchedulerError: there is no such file and no such pod, or it is not understood.
        """
        settings = client.Configuration()
        settings.connection_pool_maxsize = 64
        settings.retries = False
        settings.client_session_kwargs = SESSION
        try:
            if kubeconfig is None:
                config.load_incluster_config(client_configuration=settings)
            else:
                await config.load_kube_config(str(kubeconfig), client_configuration=settings, persist_config=False)
        except (ConfigException, OSError) as error:
            raise SchedulerError(f"no API server can be found: {error}") from error
        settings.proxy = settings.proxy or proxy_of(settings.host)
        return cls(settings)

    async def close(self) -> None:
        """Let go of all connections."""
        await self._client.close()

    async def get(self, path: str, **query: object) -> Json:
        """Return the object or list at *path*."""
        return await self.request("GET", path, query)

    async def post(self, path: str, body: Json) -> Json:
        """Create *body* at *path*."""
        return await self.request("POST", path, body=body)

    async def put(self, path: str, body: Json) -> Json:
        """Replace the object at *path*."""
        return await self.request("PUT", path, body=body)

    async def patch(self, path: str, body: Json | list[Json], kind: str = MERGE_PATCH, **query: object) -> Json:
        """Change the object at *path* by a patch of *kind*."""
        return await self.request("PATCH", path, query, body, kind)

    async def delete(self, path: str, body: Json | None = None) -> Json:
        """Delete the object at *path*."""
        return await self.request("DELETE", path, body=body)

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None = None,
        body: Json | list[Json] | None = None,
        kind: str = "application/json",
    ) -> Json:
        """Return the answer to one request as JSON.

        Raises:
            ApiError: the server refused. SchedulerDown: it did not answer within :data:`REQUEST_S`.
        """
        if method != "GET":
            self.writes += 1
        answer: Json = orjson.loads(await self._send(method, path, query, body, kind))
        return answer

    async def text(self, path: str, **query: object) -> str:
        """Return what stands at *path* as text: a pod's log."""
        return (await self._send("GET", path, query)).decode("utf-8", "replace")

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None = None,
        body: Json | list[Json] | None = None,
        kind: str = "application/json",
    ) -> bytes:
        try:
            async with await self._open(method, path, query, body, kind) as response:
                content: bytes = await response.read()
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise SchedulerDown(f"the API server does not answer: {error or type(error).__name__}") from error
        if response.status >= 400:
            raise _refusal(response.status, content)
        return content

    async def watch(self, path: str, silence_s: float, **query: object) -> AsyncIterator[Json]:
        """Yield the events of a watch until the server ends it.

        Raises:
            ApiError: the server refused, or said so in the stream (410). Silence: nothing came for *silence_s* seconds,
                bookmarks included. SchedulerDown: it broke off.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=REQUEST_S, sock_read=silence_s)
        try:
            async with await self._open("GET", path, {"watch": "true", **query}, timeout=timeout) as response:
                if response.status >= 400:
                    raise _refusal(response.status, await response.read())
                try:
                    async for line in response.content:
                        event: Json = orjson.loads(line)
                        if event["type"] == "ERROR":
                            raise _error(event["object"])
                        yield event
                except asyncio.TimeoutError as error:
                    raise Silence(f"a watch of {path} was silent for {silence_s:g} s") from error
                finally:
                    hang_up(response)
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError, orjson.JSONDecodeError) as error:
            raise SchedulerDown(f"a watch of {path} broke off: {error or type(error).__name__}") from error

    async def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None = None,
        body: Json | list[Json] | None = None,
        kind: str = "application/json",
        timeout: aiohttp.ClientTimeout = aiohttp.ClientTimeout(total=REQUEST_S),  # noqa: B008 - frozen
    ) -> aiohttp.ClientResponse:
        words = [(key, value) for key, value in (query or {}).items() if value is not None]
        method, url, headers, data, _ = await self._client.param_serialize(
            method,
            path,
            query_params=words,
            header_params={"Accept": "application/json", "Content-Type": kind},
            body=body,
            auth_settings=["BearerToken"],
        )
        answer = await self._client.call_api(method, url, headers, data, _request_timeout=timeout)
        response: aiohttp.ClientResponse = answer.response
        return response


def hang_up(response: aiohttp.ClientResponse) -> None:
    """Cut the connection of a *response* that has no end.

    A polite end of TLS waits for the server's own, half a minute where it is busy or gone, and nobody waits for that.
    """
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()


def path_of(group: str, plural: str, namespace: str | None = None, name: str | None = None, sub: str = "") -> str:
    """Return the path of an object or a list; *group* is ``v1`` or ``apps/v1``.

    >>> path_of("v1", "nodes", name="n1", sub="status")
    '/api/v1/nodes/n1/status'
    """
    parts = ["/apis" if "/" in group else "/api", group]
    parts += ["namespaces", namespace] if namespace else []
    parts += [plural, *([name] if name else []), *([sub] if sub else [])]
    return "/".join(parts)


def proxy_of(url: str) -> str | None:
    """Return the proxy that the environment names for *url*, or None."""
    parts = urlsplit(url)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


def _refusal(status: int, content: bytes) -> ApiError:
    try:
        said = orjson.loads(content)
    except orjson.JSONDecodeError:
        return ApiError(status, "", content[:200].decode("utf-8", "replace"))
    return _error(said) if isinstance(said, dict) else ApiError(status, "", str(said)[:200])


def _error(said: Json) -> ApiError:
    return ApiError(int(said.get("code") or 0), str(said.get("reason", "")), str(said.get("message", ""))[:500])
