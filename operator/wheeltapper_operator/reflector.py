"""Keeps a trimmed copy of one kind of object, and tells what changed.

A list in pages, then a watch from where it ended. What breaks a watch without a word is the danger: it is ended by us
when it was silent for longer than bookmarks are apart, and begun anew from the last version seen; when the server no
longer has that version, everything is listed again and compared, so that no change is lost.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from wheeltapper.errors import SchedulerError
from wheeltapper_operator.api import Api, ApiError, Json, Silence

log = logging.getLogger(__name__)

T = TypeVar("T")

PAGE = 200
"""Objects of one page. Of a list of 45,000, measured: with kubectl's 500 our memory grows by a sixth, and with 100 the
API server works a quarter longer."""

SILENCE_S = 90.0
"""The API server sends a bookmark about once a minute; a watch that is silent for longer may be dead.

It may be alive as well: there are no bookmarks of a kind of which the server has not seen one change since its start.
"""

WATCH_S = (240, 360)
"""A watch is ended by the server after so many seconds, so that connections spread over API servers again."""

BACKOFF_S = 0.5
BACKOFF_MAX_S = 30.0


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """What became of one object: ``old`` is None for a new one, ``new`` is None for one that is gone."""

    key: str
    old: T | None
    new: T | None


Hear = Callable[[Change[T]], None]


class Reflector(Generic[T]):
    """The objects at *path*, each as *trim* makes it of the server's JSON; *hear* is told of every change.

    *trim* returns None for an object that is of no interest. *query* narrows the list (``labelSelector``). *find* says
    where they are by now, and is asked before all are listed: a kind is served in other versions after an upgrade.
    """

    def __init__(
        self,
        api: Api,
        path: str,
        trim: Callable[[Json], T | None],
        hear: Hear[T],
        query: Mapping[str, str] | None = None,
        find: Callable[[], Awaitable[str]] | None = None,
    ) -> None:
        self._api = api
        self._path = path
        self._trim = trim
        self._hear = hear
        self._query = dict(query or {})
        self._find = find
        self._version = ""
        self._objects: dict[str, T] = {}
        self._versions: dict[str, int] = {}
        self.synced = asyncio.Event()
        self.lists = 0

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        return iter(tuple(self._objects.values()))

    def get(self, key: str) -> T | None:
        """Return the object that is called *key* (``namespace/name``, or ``name`` where there are no namespaces)."""
        return self._objects.get(key)

    def put(self, item: Json) -> None:
        """Take up what the server answered to a write of ours, without waiting for the watch to say it again."""
        self._take(item)

    async def run(self) -> None:
        """List and watch, for ever."""
        pause = BACKOFF_S
        while True:
            try:
                if not self._version:
                    await self._list()
                    self.synced.set()
                await self._watch()
                pause = BACKOFF_S
            except Silence:
                # Nothing is wrong as far as we can tell, so nobody is told, and no change may wait for a pause of ours.
                log.debug("%s was silent for %g s, and is watched anew.", self._path, SILENCE_S)
                pause = BACKOFF_S
            except SchedulerError as error:
                if isinstance(error, ApiError) and error.is_gone and self._version:
                    log.info("The version of %s that we have seen is gone, and all are listed again.", self._path)
                    self._version = ""
                    continue
                is_unknown = isinstance(error, ApiError) and error.status == 404
                if not is_unknown:
                    log.warning("%s is not seen for the moment: %s.", self._path, error)
                elif not self.synced.is_set():  # said once: it may never come
                    log.info("This cluster has no %s so far.", self._path)
                if isinstance(error, ApiError):
                    self._version = ""  # the server refuses what we ask for: begin anew
                if is_unknown:
                    self.synced.set()  # the cluster has no such kind, so there are none of it
                await asyncio.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - jitter, not a secret
                pause = min(pause * 2, BACKOFF_MAX_S)

    async def _list(self) -> None:
        self.lists += 1
        if self._find is not None:
            self._path = await self._find()
        seen: set[str] = set()
        meta = await self._list_page("", seen)
        while proceed := meta.get("continue", ""):
            meta = await self._list_page(proceed, seen)
        for key in self._objects.keys() - seen:
            self._drop(key)
        self._version = meta["resourceVersion"]

    async def _list_page(self, proceed: str, seen: set[str]) -> Json:
        """Take up one page, add its keys to *seen*, and return what is said of the list.

        Read from JSON a page of nodes takes 14 MB: of all reflectors together there is one at a time, and none is kept.
        """
        async with self._api.one_page:
            page = await self._api.get(self._path, limit=PAGE, **self._query, **{"continue": proceed or None})
            seen.update(self._take(item) for item in page.get("items") or ())
        meta: Json = page["metadata"]
        return meta

    async def _watch(self) -> None:
        events = self._api.watch(
            self._path,
            SILENCE_S,
            resourceVersion=self._version,
            allowWatchBookmarks="true",
            timeoutSeconds=random.randint(*WATCH_S),  # noqa: S311 - jitter, not a secret
            **self._query,
        )
        async for event in events:
            item = event["object"]
            if event["type"] == "DELETED":
                self._drop(key_of(item), item)
            elif event["type"] in {"ADDED", "MODIFIED"}:
                self._take(item)
            self._version = item["metadata"]["resourceVersion"]

    def _take(self, item: Json) -> str:
        key = key_of(item)
        version = int(item["metadata"]["resourceVersion"])
        if version < self._versions.get(key, 0):
            return key  # the watch is behind an answer that we have had
        new = self._trim(item)
        old = self._objects.get(key)
        if new is None:
            self._drop(key)
            return key
        self._versions[key] = version
        if new != old:
            self._objects[key] = new
            self._hear(Change(key, old, new))
        return key

    def _drop(self, key: str, last: Json | None = None) -> None:
        """Forget *key*; *last* is what it was when it went, which may say more than we have seen."""
        self._versions.pop(key, None)
        old = self._objects.pop(key, None)
        seen = self._trim(last) if last is not None else None
        if old is not None or seen is not None:
            self._hear(Change(key, seen or old, None))


def key_of(item: Json) -> str:
    """Return ``namespace/name`` of an object, or its name where it has no namespace."""
    meta = item["metadata"]
    namespace = meta.get("namespace")
    return f"{namespace}/{meta['name']}" if namespace else str(meta["name"])
