"""An API server in memory: as much of it as a reflector and a lease need."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

from wheeltapper.errors import SchedulerDown
from wheeltapper_operator.api import ApiError


class FakeApi:
    """Objects by path, a version that counts, and watches that tests feed and break."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.version = 100
        self.fails: list[Exception] = []
        self.requests: list[tuple[str, str]] = []
        self.watches: list[asyncio.Queue[Any]] = []
        self.page = 2
        self.writes = 0
        self.one_page = asyncio.Semaphore(1)

    def set(self, path: str, name: str, **rest: Any) -> dict[str, Any]:
        """Put an object there, as somebody else would, and tell the watches of it."""
        self.version += 1
        kind = "MODIFIED" if f"{path}/{name}" in self.objects else "ADDED"
        item = {"metadata": {"name": name, "uid": name, "resourceVersion": str(self.version)}, **rest}
        self.objects[f"{path}/{name}"] = item
        self.tell({"type": kind, "object": item})
        return item

    def drop(self, path: str, name: str) -> None:
        self.version += 1
        item = copy.deepcopy(self.objects.pop(f"{path}/{name}"))
        item["metadata"]["resourceVersion"] = str(self.version)
        self.tell({"type": "DELETED", "object": item})

    def tell(self, event: Any) -> None:
        for watch in self.watches:
            watch.put_nowait(event)

    def _answer(self, method: str, path: str) -> None:
        self.requests.append((method, path))
        if self.fails:
            raise self.fails.pop(0)

    async def get(self, path: str, **query: Any) -> dict[str, Any]:
        self._answer("GET", path)
        if path in self.objects:
            return copy.deepcopy(self.objects[path])
        if "limit" not in query:
            raise ApiError(404, "NotFound", path)
        items = [item for key, item in sorted(self.objects.items()) if key.startswith(f"{path}/")]
        begin = int(query.get("continue") or 0)
        rest = len(items) - begin - self.page
        meta = {"resourceVersion": str(self.version), "continue": str(begin + self.page) if rest > 0 else ""}
        return {"metadata": meta, "items": copy.deepcopy(items[begin : begin + self.page])}

    async def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._answer("POST", path)
        key = f"{path}/{body['metadata']['name']}"
        if key in self.objects:
            raise ApiError(409, "AlreadyExists", key)
        return await self._store(key, body)

    async def put(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self._answer("PUT", path)
        if self.objects[path]["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", path)
        return await self._store(path, body)

    async def _store(self, key: str, body: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        item = copy.deepcopy(body)
        item["metadata"]["resourceVersion"] = str(self.version)
        self.objects[key] = item
        return copy.deepcopy(item)

    async def watch(self, path: str, silence_s: float, **query: Any) -> Any:
        self._answer("WATCH", path)
        events: asyncio.Queue[Any] = asyncio.Queue()
        self.watches.append(events)
        try:
            while True:
                event = await events.get()
                if isinstance(event, Exception):
                    raise event
                if event is None:
                    return
                yield event
        finally:
            self.watches.remove(events)


GONE = ApiError(410, "Expired", "too old resource version")
DOWN = SchedulerDown("the API server does not answer")
