"""Brings a ledger's tables up to this program's version."""

from __future__ import annotations

from wheeltapper import codec
from wheeltapper.ledger import schema
from wheeltapper.ledger.database import Database
from wheeltapper.ledger.model import Interruption, Quarantine
from wheeltapper.ledger.writing import OURS, write, write_quarantine

PAGE = 1000
"""Records that are copied at a time: a few megabytes."""

_ACTS = "INSERT INTO act SELECT id, :cluster, attempt, kind, target, value, outcome, note FROM act_1"


def upgrade(database: Database, cluster: str, checkpoint_s: int) -> None:
    """Make the tables, or change old ones; what an older version recorded belongs to *cluster*.

    Raises:
        LedgerError: the database refuses, or a newer version of this program made the tables. Nothing has changed then.
    """
    if not schema.is_behind(database):
        return
    with database.transaction():
        version = database.version()
        if version == 1:
            database.script(schema.SET_ASIDE)
        if version < 2:
            database.script(schema.RECORD)
        if version == 1:
            _copy(database, cluster, checkpoint_s)
        for script in schema.LATER[max(0, version - 2) :]:
            database.script(script)
        database.set_version(schema.VERSION)


def _copy(database: Database, cluster: str, checkpoint_s: int) -> None:
    last = ""
    while page := database.rows(
        f"SELECT attempt, body FROM interruption_1 WHERE attempt > :last ORDER BY attempt LIMIT {PAGE}",
        {"last": last},
    ):
        found = [codec.loads(Interruption, body) for _, body in page]
        write(database, cluster, found, OURS, checkpoint_s)
        last = page[-1][0]
    database.run(_ACTS, {"cluster": cluster})
    for (body,) in database.rows("SELECT body FROM quarantine_1 ORDER BY id"):
        write_quarantine(database, cluster, codec.loads(Quarantine, body))
    database.script("DROP TABLE act_1; DROP TABLE quarantine_1; DROP TABLE interruption_1")
