"""The ledger in SQLite: one writer, every method one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from wheeltapper import codec
from wheeltapper.errors import WheeltapperError
from wheeltapper.ledger.model import Act, Interruption, Outcome, Quarantine
from wheeltapper.policy.model import History, Payer

MIGRATIONS: tuple[str, ...] = (
    """
    CREATE TABLE interruption (
        attempt TEXT PRIMARY KEY, job TEXT NOT NULL, label TEXT NOT NULL, requeue TEXT NOT NULL,
        decided_at REAL NOT NULL, body TEXT NOT NULL
    );
    CREATE INDEX interruption_job ON interruption (job);
    CREATE INDEX interruption_decided_at ON interruption (decided_at);
    CREATE TABLE act (
        id INTEGER PRIMARY KEY, attempt TEXT NOT NULL REFERENCES interruption, kind TEXT NOT NULL,
        target TEXT NOT NULL, value TEXT NOT NULL, outcome TEXT NOT NULL, note TEXT NOT NULL
    );
    CREATE INDEX act_outcome ON act (outcome);
    CREATE INDEX act_attempt ON act (attempt);
    CREATE TABLE quarantine (
        id INTEGER PRIMARY KEY, node TEXT NOT NULL, at REAL NOT NULL, body TEXT NOT NULL
    );
    CREATE INDEX quarantine_node ON quarantine (node, at);
    """,
)
"""Each entry takes the file one version further; ``PRAGMA user_version`` says which is the next."""


class Ledger:
    """The record of interruptions, diagnoses, decisions and outcomes in the file at *path*.

    Raises:
        WheeltapperError: the file cannot be opened, or a newer version of this program wrote it.
    """

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        try:
            if read_only:
                self._db = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._db = sqlite3.connect(path, isolation_level=None)
        except (sqlite3.Error, OSError) as error:
            raise WheeltapperError(f"the ledger {path} cannot be opened: {error}") from error
        try:
            self._prepare(path, read_only=read_only)
        except sqlite3.Error as error:
            self._db.close()
            raise WheeltapperError(f"the ledger {path} cannot be opened: {error}") from error
        except WheeltapperError:
            self._db.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _prepare(self, path: Path, *, read_only: bool) -> None:
        self._db.execute("PRAGMA busy_timeout = 5000")
        version: int = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version > len(MIGRATIONS):
            raise WheeltapperError(f"the ledger {path} was written by a newer version of wheeltapper")
        if read_only and version < len(MIGRATIONS):
            raise WheeltapperError(
                f"the ledger {path} is of an older version; the controller service brings it up to date"
            )
        if not read_only:
            self._db.execute("PRAGMA journal_mode = WAL")
        for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
            self._db.executescript(f"BEGIN; {script}; PRAGMA user_version = {number}; COMMIT;")

    def record(self, interruption: Interruption, acts: Iterable[Act]) -> bool:
        """Record *interruption* and its *acts* together; False, and no change, when its attempt is there already."""
        requeue = interruption.decision.job.payer.value if interruption.decision.job.requeue else ""
        with self._transaction() as db:
            done = db.execute(
                "INSERT OR IGNORE INTO interruption VALUES (?, ?, ?, ?, ?, ?)",
                (
                    interruption.attempt.key,
                    interruption.attempt.job,
                    interruption.diagnosis.label,
                    requeue,
                    interruption.decided_at,
                    codec.dumps(interruption),
                ),
            )
            if not done.rowcount:
                return False
            db.executemany(
                "INSERT INTO act (attempt, kind, target, value, outcome, note) VALUES (?, ?, ?, ?, ?, ?)",
                [(interruption.attempt.key, a.kind, a.target, a.value, a.outcome.value, a.note) for a in acts],
            )
        return True

    def amend(self, interruption: Interruption, acts: Iterable[Act]) -> None:
        """Put *interruption* in the place of what is recorded of its attempt, and add *acts* to those there."""
        requeue = interruption.decision.job.payer.value if interruption.decision.job.requeue else ""
        key = interruption.attempt.key
        with self._transaction() as db:
            db.execute(
                "UPDATE interruption SET label = ?, requeue = ?, body = ? WHERE attempt = ?",
                (interruption.diagnosis.label, requeue, codec.dumps(interruption), key),
            )
            db.executemany(
                "INSERT INTO act (attempt, kind, target, value, outcome, note) VALUES (?, ?, ?, ?, ?, ?)",
                [(key, a.kind, a.target, a.value, a.outcome.value, a.note) for a in acts],
            )

    def known(self, attempt: str) -> bool:
        """True when the attempt with this key has been decided."""
        return self._db.execute("SELECT 1 FROM interruption WHERE attempt = ?", (attempt,)).fetchone() is not None

    def acts(self, *, attempt: str | None = None, outcome: Outcome | None = None) -> list[Act]:
        """Return acts in the order in which they are to be done, of one *attempt* or with one *outcome*."""
        rows = self._db.execute(
            "SELECT kind, target, value, outcome, note, id, attempt FROM act"
            " WHERE (:attempt IS NULL OR attempt = :attempt) AND (:outcome IS NULL OR outcome = :outcome) ORDER BY id",
            {"attempt": attempt, "outcome": outcome.value if outcome else None},
        )
        return [
            Act(kind, target, value, Outcome(out), note, number, key)
            for kind, target, value, out, note, number, key in rows
        ]

    def settle(self, act: Act, outcome: Outcome, note: str = "") -> Act:
        """Write down what became of *act* and return it so."""
        with self._transaction() as db:
            db.execute("UPDATE act SET outcome = ?, note = ? WHERE id = ?", (outcome.value, note, act.id))
        return replace(act, outcome=outcome, note=note)

    def history(self, job: str, but: str = "") -> History:
        """Return how often *job* was requeued by us, who paid, and its roots; what was only observed does not count.

        *but* is the key of an attempt that is left out.
        """
        rows = self._db.execute(
            "SELECT requeue, count(*) FROM interruption AS i WHERE job = ? AND attempt != ? AND EXISTS"
            " (SELECT 1 FROM act WHERE act.attempt = i.attempt AND kind = 'requeue' AND outcome IN ('planned', 'done'))"
            " GROUP BY requeue",
            (job, but),
        )
        count = dict(rows.fetchall())
        return History(
            user=count.get(Payer.USER.value, 0),
            infrastructure=count.get(Payer.INFRASTRUCTURE.value, 0),
            blind=count.get(Payer.BLIND.value, 0),
            roots=frozenset(
                (each.diagnosis.name, each.attempt.step)
                for each in self.interruptions(job=job)
                if each.attempt.step is not None and each.attempt.key != but
            ),
        )

    def interruptions(self, *, job: str | None = None, since: float = 0.0) -> Iterator[Interruption]:
        """Yield interruptions, oldest first: of one *job*, or all that were decided since *since* (Unix seconds)."""
        rows = self._db.execute(
            "SELECT body FROM interruption WHERE (:job IS NULL OR job = :job) AND decided_at >= :since"
            " ORDER BY decided_at, attempt",
            {"job": job, "since": since},
        )
        for (body,) in rows:
            yield codec.loads(Interruption, body)

    def of_attempt(self, attempt: str) -> list[Interruption]:
        """Return the interruption with this attempt's key, or nothing."""
        rows = self._db.execute("SELECT body FROM interruption WHERE attempt = ?", (attempt,))
        return [codec.loads(Interruption, body) for (body,) in rows]

    def record_quarantine(self, quarantine: Quarantine) -> None:
        """Record that a node was taken out, or would have been."""
        with self._transaction() as db:
            db.execute(
                "INSERT INTO quarantine (node, at, body) VALUES (?, ?, ?)",
                (quarantine.node, quarantine.at, codec.dumps(quarantine)),
            )

    def quarantines(self, *, node: str | None = None, since: float = 0.0) -> list[Quarantine]:
        """Return quarantines, oldest first: of one *node*, or all since *since* (Unix seconds)."""
        rows = self._db.execute(
            "SELECT body FROM quarantine WHERE (:node IS NULL OR node = :node) AND at >= :since ORDER BY at, id",
            {"node": node, "since": since},
        )
        return [codec.loads(Quarantine, body) for (body,) in rows]
