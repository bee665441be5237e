"""The two databases that hold a ledger, behind one small face: the same SQL text, one error, one kind of transaction.

SQL is written once, with ``:name`` parameters. What differs is named in braces (``{real}``) and filled in by the
database. Text compares byte by byte in both, so that both give their rows in the same order.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Protocol

from wheeltapper.errors import LedgerError

Row = tuple[Any, ...]
Values = Mapping[str, Any]

BUSY_MS: Final = 5000
"""How long a writer waits for another one; SQLite has one at a time."""

REACH_S: Final = 5
"""How long a PostgreSQL server may take to be reached, and one statement of the service to be done."""

_NAME = re.compile(r":([a-z_]+)")


class Database(Protocol):
    """One open database. Every method raises :class:`LedgerError` when the database refuses or is away."""

    name: str
    """For people: the file, or the server without its secrets."""

    def rows(self, sql: str, values: Values | None = None) -> list[Row]:
        """Return all rows of a query."""

    def run(self, sql: str, values: Values | None = None) -> int:
        """Run one statement and return how many rows it touched."""

    def run_many(self, sql: str, values: Sequence[Values]) -> None:
        """Run one statement for each of *values*."""

    def script(self, sql: str) -> None:
        """Run several statements that take no values and may differ between the databases."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All that runs inside happens, or none of it."""
        yield

    def version(self) -> int:
        """Return the version of the tables that are there; 0 for none."""

    def set_version(self, number: int) -> None:
        """Remember the version of the tables."""

    def close(self) -> None:
        """Let go of the database."""


class SQLite:
    """A file. A reader opens it read-only and makes nothing.

    Raises:
        LedgerError: the file cannot be opened or is no database.
    """

    WORDS: Final = {
        "id": "INTEGER PRIMARY KEY",
        "text": "TEXT",
        "real": "REAL",
        "int": "INTEGER",
        "clustered": "WITHOUT ROWID",
    }

    def __init__(self, path: Path, *, read_only: bool = False, shared: bool = False) -> None:
        """*shared* says that programs on several hosts open the file."""
        self.name = str(path)
        try:
            if read_only:
                self._db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._db = sqlite3.connect(path, isolation_level=None)
        except (sqlite3.Error, OSError) as error:
            raise LedgerError(f"the ledger {path} cannot be opened: {error}") from error
        try:
            self._db.execute(f"PRAGMA busy_timeout = {BUSY_MS}")
            self.version()
            if not read_only:
                # A write-ahead log needs memory that all who open the file share, and two hosts have none.
                self._db.execute(f"PRAGMA journal_mode = {'TRUNCATE' if shared else 'WAL'}")
        except (sqlite3.Error, LedgerError) as error:
            self._db.close()
            raise LedgerError(f"the ledger {path} cannot be opened: {error}") from error

    def rows(self, sql: str, values: Values | None = None) -> list[Row]:
        """See :class:`Database`."""
        with self._told():
            return self._db.execute(sql, values or {}).fetchall()

    def run(self, sql: str, values: Values | None = None) -> int:
        """See :class:`Database`."""
        with self._told():
            return self._db.execute(sql, values or {}).rowcount

    def run_many(self, sql: str, values: Sequence[Values]) -> None:
        """See :class:`Database`."""
        with self._told():
            self._db.executemany(sql, values)

    def script(self, sql: str) -> None:
        """See :class:`Database`."""
        for statement in sql.format_map(self.WORDS).split(";"):
            self.run(statement)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See :class:`Database`."""
        self.run("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.run("ROLLBACK")
            raise
        self.run("COMMIT")

    def version(self) -> int:
        """See :class:`Database`."""
        return int(self.rows("PRAGMA user_version")[0][0])

    def set_version(self, number: int) -> None:
        """See :class:`Database`."""
        self.run(f"PRAGMA user_version = {number:d}")

    def close(self) -> None:
        """See :class:`Database`."""
        self._db.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise LedgerError(f"{error} ({self.name})") from error


class PostgreSQL:
    """A server, given as a connection string; a connection that broke is made anew at the next use.

    Raises:
        LedgerError: the driver is missing, the string is wrong, or the server does not let us in.
    """

    WORDS: Final = {
        "id": "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY",
        "text": 'TEXT COLLATE "C"',
        "real": "DOUBLE PRECISION",
        "int": "BIGINT",
        "clustered": "",
    }

    def __init__(self, dsn: str, *, read_only: bool = False) -> None:
        try:
            import psycopg  # noqa: PLC0415 - an extra, and 120 ms that a ledger in a file need not pay
        except ImportError as error:
            raise LedgerError("ledger.dsn needs PostgreSQL's driver: pip install 'wheeltapper[postgresql]'") from error
        self._driver = psycopg
        self._dsn = dsn
        self._read_only = read_only
        self._depth = 0
        self.name = "in PostgreSQL"
        self._db = self._connected()
        self.name = f"{self._db.info.dbname} on {self._db.info.host}"

    def _connected(self) -> Any:
        with self._told():
            made = self._driver.connect(
                self._dsn,
                autocommit=True,
                connect_timeout=REACH_S,
                # Values are put into the text on our side: the server need not guess the type of one that is NULL.
                cursor_factory=self._driver.ClientCursor,
            )
            if self._read_only:
                made.execute("SET default_transaction_read_only = on")
            else:
                made.execute(f"SET statement_timeout = '{REACH_S}s'")
        return made

    def _execute(self, sql: str, values: Values | None) -> Any:
        if self._db.closed and not self._depth:
            self._db = self._connected()
        with self._told():
            return self._db.execute(self._text(sql), dict(values or {}))

    def rows(self, sql: str, values: Values | None = None) -> list[Row]:
        """See :class:`Database`."""
        found: list[Row] = self._execute(sql, values).fetchall()
        return found

    def run(self, sql: str, values: Values | None = None) -> int:
        """See :class:`Database`."""
        return int(self._execute(sql, values).rowcount)

    def run_many(self, sql: str, values: Sequence[Values]) -> None:
        """See :class:`Database`."""
        with self._told(), self._db.cursor() as cursor:
            cursor.executemany(self._text(sql), [dict(each) for each in values])

    def script(self, sql: str) -> None:
        """See :class:`Database`."""
        self.run(sql.format_map(self.WORDS))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """See :class:`Database`."""
        self.run("BEGIN")
        self._depth += 1
        try:
            yield
        except BaseException:
            if not self._db.closed:
                self.run("ROLLBACK")
            raise
        finally:
            self._depth -= 1
        self.run("COMMIT")

    def version(self) -> int:
        """See :class:`Database`."""
        if self.rows("SELECT to_regclass('wheeltapper_version')")[0][0] is None:
            return 0
        return int(self.rows("SELECT max(number) FROM wheeltapper_version")[0][0])

    def set_version(self, number: int) -> None:
        """See :class:`Database`."""
        self.run("CREATE TABLE IF NOT EXISTS wheeltapper_version (number INTEGER PRIMARY KEY)")
        self.run("INSERT INTO wheeltapper_version VALUES (:number)", {"number": number})

    def close(self) -> None:
        """See :class:`Database`."""
        self._db.close()

    @staticmethod
    def _text(sql: str) -> str:
        return _NAME.sub(r"%(\1)s", sql.replace("%", "%%"))

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except self._driver.Error as error:
            raise LedgerError(f"the ledger {self.name}: {' '.join(str(error).split())}") from error
