"""Fixtures: an empty ledger in each of the two databases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.ledger.postgres import NoServerError, Server
from wheeltapper.ledger.database import Database, PostgreSQL, SQLite
from wheeltapper.ledger.store import Ledger

NewLedger = Callable[..., Ledger]


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """Debian's PostgreSQL; skips, and says why, where there is none."""
    try:
        made = Server()
    except NoServerError as error:
        pytest.skip(str(error))
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def databases(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Database]:
    """Make a new, empty database of one kind."""
    if request.param == "postgresql":
        started: Server = request.getfixturevalue("server")
        return lambda: PostgreSQL(started.database())
    count = iter(range(100))
    return lambda: SQLite(tmp_path / f"{next(count)}.db")


@pytest.fixture
def new_ledger(databases: Callable[[], Database], tmp_path: Path) -> Iterator[NewLedger]:
    """Make an empty ledger; takes what ``Ledger`` takes by name."""
    made = []

    def make(**options: object) -> Ledger:
        made.append(Ledger(tmp_path / "unused", database=databases(), **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def ledger(new_ledger: NewLedger) -> Ledger:
    """One empty ledger."""
    return new_ledger()
