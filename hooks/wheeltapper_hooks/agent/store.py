"""What the agent remembers over restarts: findings, the place in the kernel log, what is settled, what is undelivered.

One SQLite file. A disk that is full or damaged costs the memory of it and nothing else: the store goes on in memory,
and ``trouble`` says so.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from wheeltapper import codec
from wheeltapper.evidence import Finding
from wheeltapper_hooks.agent.standing import place

log = logging.getLogger(__name__)

T = TypeVar("T")

OUTBOX_ROWS = 1_000
"""Undelivered reports kept: days of an unreachable controller."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS finding (
    key TEXT, signature TEXT, boot_id TEXT, at REAL, convicts INTEGER, body TEXT, PRIMARY KEY (key, signature));
CREATE INDEX IF NOT EXISTS finding_at ON finding (boot_id, at);
CREATE TABLE IF NOT EXISTS cursor (boot_id TEXT PRIMARY KEY, sequence INTEGER);
CREATE TABLE IF NOT EXISTS standing (boot_id TEXT, number INTEGER, body TEXT, PRIMARY KEY (boot_id, number));
CREATE TABLE IF NOT EXISTS mark (kind TEXT, key TEXT, at REAL, PRIMARY KEY (kind, key));
CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, body TEXT);
"""


class Store:
    """The agent's memory, bounded to *rows* findings, and to *days* days for what is not of this boot.

    A fault of this boot is open until the next one, however long ago it was.
    """

    def __init__(self, path: Path, boot_id: str, rows: int, days: int) -> None:
        self.trouble = ""
        self._boot_id = boot_id
        self._rows = rows
        self._days = days
        try:
            self._db = self._open(path)
        except (sqlite3.Error, OSError) as error:
            self._db = self._in_memory(f"{path} cannot be used ({error})")

    @staticmethod
    def _open(path: Path) -> sqlite3.Connection:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        db = sqlite3.connect(path, timeout=1.0)
        try:
            db.execute("PRAGMA journal_mode=WAL")
            # With a WAL this loses the last moments at a power cut, never the file; and a power cut is a new boot.
            db.execute("PRAGMA synchronous=NORMAL")
            db.executescript(_SCHEMA)
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _in_memory(self, why: str) -> sqlite3.Connection:
        self.trouble = f"evidence is kept in memory only until the next start, because {why}"
        log.error("From now on %s.", self.trouble)
        db = sqlite3.connect(":memory:")
        db.executescript(_SCHEMA)
        return db

    def _try(self, work: Callable[[sqlite3.Connection], T]) -> T:
        try:
            with self._db:
                return work(self._db)
        except sqlite3.Error as error:
            if self.trouble:
                raise
            old, self._db = self._db, self._in_memory(f"writing failed ({error})")
            _rescue(old, self._db)
            with self._db:
                return work(self._db)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def add(self, findings: Iterable[Finding], sequence: int | None = None) -> None:
        """Keep *findings*, and with them the place in the kernel log up to which they were looked for."""
        rows = [
            (_key(each), each.signature, self._boot_id, each.evidence.at, each.convicts, codec.dumps(each))
            for each in findings
        ]

        def work(db: sqlite3.Connection) -> None:
            db.executemany("INSERT OR REPLACE INTO finding VALUES (?, ?, ?, ?, ?, ?)", rows)
            if sequence is not None:
                db.execute("DELETE FROM cursor WHERE boot_id != ?", (self._boot_id,))
                db.execute("INSERT OR REPLACE INTO cursor VALUES (?, ?)", (self._boot_id, sequence))
            db.execute("DELETE FROM finding WHERE at < ? AND boot_id != ?", (self._oldest(), self._boot_id))
            db.execute(
                "DELETE FROM finding WHERE rowid IN (SELECT rowid FROM finding"
                " ORDER BY convicts, at LIMIT max(0, (SELECT count(*) FROM finding) - ?))",
                (self._rows,),
            )

        self._try(work)

    def keep_standing(self, findings: Iterable[Finding]) -> None:
        """Remember which findings of the checks stand, in the place of those that stood before."""
        rows = [(self._boot_id, number, codec.dumps(each)) for number, each in enumerate(findings)]

        def work(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM standing")
            db.executemany("INSERT INTO standing VALUES (?, ?, ?)", rows)

        self._try(work)

    def standing(self) -> list[Finding]:
        """Return the findings of the checks that stood last, of this boot."""
        rows = self._fetch("SELECT body FROM standing WHERE boot_id = ? ORDER BY number", self._boot_id)
        return [codec.loads(Finding, body) for (body,) in rows]

    def cursor(self) -> int:
        """Return the sequence number of the last kernel line of this boot that was looked at; -1 when none was."""
        found = self._fetch("SELECT sequence FROM cursor WHERE boot_id = ?", self._boot_id)
        return int(found[0][0]) if found else -1

    def since(self, at: float, limit: int) -> list[Finding]:
        """Return findings of this boot from *at* (Unix seconds) on, the oldest first.

        Of more than *limit*, those that convict come before the rest, and the newest before the older.
        """
        rows = self._fetch(
            "SELECT body FROM (SELECT body, at, key FROM finding WHERE boot_id = ? AND at >= ?"
            " ORDER BY convicts DESC, at DESC LIMIT ?) ORDER BY at, key",
            self._boot_id,
            at,
            limit,
        )
        return [codec.loads(Finding, body) for (body,) in rows]

    def mark(self, kind: str, keys: Iterable[str]) -> None:
        """Remember of each of *keys* (they begin with a boot id) that it is *kind*: ``settled``, ``drained``."""
        rows = [(kind, key, time.time()) for key in keys]

        def work(db: sqlite3.Connection) -> None:
            db.executemany("INSERT OR REPLACE INTO mark VALUES (?, ?, ?)", rows)
            db.execute("DELETE FROM mark WHERE at < ? AND key NOT LIKE ?", (self._oldest(), f"{self._boot_id}:%"))

        self._try(work)

    def marked(self, kind: str) -> frozenset[str]:
        """Return the keys that are *kind*."""
        return frozenset(key for (key,) in self._fetch("SELECT key FROM mark WHERE kind = ?", kind))

    def post(self, body: str) -> int:
        """Keep a message until it is delivered, and return its number; the oldest goes when there are too many."""

        def work(db: sqlite3.Connection) -> int:
            db.execute("DELETE FROM outbox WHERE id <= (SELECT max(id) FROM outbox) - ?", (OUTBOX_ROWS,))
            return int(db.execute("INSERT INTO outbox (body) VALUES (?)", (body,)).lastrowid or 0)

        return self._try(work)

    def repost(self, number: int, body: str) -> None:
        """Put *body* in the place of message *number*."""
        self._try(lambda db: db.execute("UPDATE outbox SET body = ? WHERE id = ?", (body, number)))

    def drop(self, number: int) -> None:
        """Forget message *number*: it was delivered."""
        self._try(lambda db: db.execute("DELETE FROM outbox WHERE id = ?", (number,)))

    def undelivered(self) -> list[tuple[int, str]]:
        """Return the messages that wait, the oldest first."""
        return self._fetch("SELECT id, body FROM outbox ORDER BY id")

    def _fetch(self, query: str, *values: object) -> list[Any]:
        return self._try(lambda db: db.execute(query, values).fetchall())

    def _oldest(self) -> float:
        return time.time() - self._days * 86_400


def _key(finding: Finding) -> str:
    return finding.key if finding.evidence.sequence is not None else place(finding)


def _rescue(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    """Carry over what the failing file can still be read for."""
    for table, columns in (("finding", 6), ("cursor", 2), ("standing", 3), ("mark", 3), ("outbox", 2)):
        try:
            rows = old.execute(f"SELECT * FROM {table}").fetchall()  # noqa: S608 - the names stand above
        except sqlite3.Error as error:
            log.warning("The table %s of the evidence could not be read: %s.", table, error)
            continue
        with new:
            new.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({', '.join('?' * columns)})", rows)  # noqa: S608
    old.close()
