"""The ledger: one writer, every method that writes is one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from wheeltapper import codec
from wheeltapper.attempt import Attempt
from wheeltapper.config import Config, LedgerSection
from wheeltapper.errors import LedgerError
from wheeltapper.ledger import rows, schema, sums, writing
from wheeltapper.ledger.database import Database, PostgreSQL, SQLite
from wheeltapper.ledger.model import Act, Interruption, NodeState, Outcome, Quarantine
from wheeltapper.ledger.upgrade import upgrade
from wheeltapper.policy.model import History, Payer
from wheeltapper.policy.order import last_failed_first

PAGE = 500
"""Records read at a time: below a megabyte."""

SOON_S = 3600.0
"""Deciding waits for reports for a minute or two; records stand in the order in which they were decided."""


class Ledger:
    """The record of interruptions, diagnoses, decisions and outcomes in the file at *path*, or in *database*.

    What is recorded, and what is asked of one job, attempt or node, belongs to *cluster*. *settings* says how often
    jobs write checkpoints.

    Raises:
        LedgerError: the database cannot be opened, or a newer version of this program wrote it.
    """

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        cluster: str = "cluster",
        database: Database | None = None,
        settings: LedgerSection | None = None,
    ) -> None:
        database = database or SQLite(path, read_only=read_only)
        self.database = database
        self.cluster = cluster
        self.checkpoint_s = (settings or LedgerSection()).checkpoint_s
        try:
            _require_current(database) if read_only else upgrade(database, cluster, self.checkpoint_s)
        except LedgerError:
            database.close()
            raise

    @classmethod
    def of(cls, config: Config, *, read_only: bool = False) -> Ledger:
        """Open the ledger that *config* names."""
        section = config.ledger
        database: Database
        if section.dsn:
            database = PostgreSQL(section.dsn, read_only=read_only)
        else:
            database = SQLite(section.path, read_only=read_only, shared=config.controller.is_shared)
        return cls(section.path, read_only=read_only, cluster=config.cluster, database=database, settings=section)

    def close(self) -> None:
        """Let go of the database."""
        self.database.close()

    def record(self, interruption: Interruption, acts: Iterable[Act]) -> bool:
        """Record *interruption* and its *acts* together; False, and no change, when its attempt is there already."""
        with self.database.transaction():
            if not writing.write(self.database, self.cluster, [interruption], writing.OURS, self.checkpoint_s):
                return False
            writing.write_acts(self.database, self.cluster, interruption.attempt.key, acts)
        return True

    def amend(self, interruption: Interruption, acts: Iterable[Act]) -> None:
        """Put *interruption* in the place of what is recorded of its attempt, and add *acts* to those there."""
        with self.database.transaction():
            writing.take_back(self.database, self.cluster, interruption.attempt.key)
            writing.write(self.database, self.cluster, [interruption], writing.OURS, self.checkpoint_s)
            writing.write_acts(self.database, self.cluster, interruption.attempt.key, acts)

    def record_run(self, attempt: Attempt) -> None:
        """Record an attempt that nothing interrupted."""
        with self.database.transaction():
            writing.write_runs(self.database, self.cluster, [attempt])

    def known(self, attempt: str) -> bool:
        """True when the attempt with this key has been decided."""
        key = rows.identity(self.cluster, attempt)
        return bool(self.database.rows("SELECT 1 FROM interruption WHERE id = :id", {"id": key}))

    def ran(self, attempt: str) -> bool:
        """True when the attempt with this key is on record as one that nothing interrupted."""
        key = rows.identity(self.cluster, attempt)
        return bool(self.database.rows("SELECT 1 FROM run WHERE id = :id", {"id": key}))

    def runs(self, job: str) -> list[float]:
        """Return when the attempts of *job* began, in Unix seconds, that nothing interrupted."""
        values = {"cluster": self.cluster, "job": job}
        found = self.database.rows("SELECT started_at FROM run WHERE cluster = :cluster AND job = :job", values)
        return [float(at) for (at,) in found]

    def ended(self, since: float, until: float) -> list[str]:
        """Return the jobs an attempt of which ended from *since* to *until*, in Unix seconds, and was decided soon."""
        values = {"cluster": self.cluster, "since": since, "until": until, "soon": until + SOON_S}
        found = self.database.rows(
            "SELECT job FROM interruption WHERE cluster = :cluster AND ended_at >= :since AND ended_at <= :until"
            " AND decided_at >= :since AND decided_at <= :soon"
            " UNION SELECT job FROM run WHERE cluster = :cluster AND ended_at >= :since AND ended_at <= :until"
            " ORDER BY job",
            values,
        )
        return [str(job) for (job,) in found]

    def acts(self, *, attempt: str | None = None, outcome: Outcome | None = None) -> list[Act]:
        """Return acts in the order in which they are to be done, of one *attempt* or with one *outcome*."""
        found = self.database.rows(
            "SELECT kind, target, value, outcome, note, id, attempt FROM act WHERE cluster = :cluster"
            " AND (:attempt IS NULL OR attempt = :attempt) AND (:outcome IS NULL OR outcome = :outcome) ORDER BY id",
            {"cluster": self.cluster, "attempt": attempt, "outcome": outcome.value if outcome else None},
        )
        return [
            Act(kind, target, value, Outcome(out), note, number, key)
            for kind, target, value, out, note, number, key in found
        ]

    def settle(self, act: Act, outcome: Outcome, note: str = "") -> Act:
        """Write down what became of *act* and return it so."""
        with self.database.transaction():
            self.database.run(
                "UPDATE act SET outcome = :outcome, note = :note WHERE id = :id",
                {"outcome": outcome.value, "note": note, "id": act.id},
            )
        return replace(act, outcome=outcome, note=note)

    def plan_again(self, attempt: str) -> int:
        """Plan what was done for *attempt* once more, since it may have been forgotten, and return how many acts.

        What slurmdbd was told is kept by slurmdbd.
        """
        with self.database.transaction():
            values = {"cluster": self.cluster, "attempt": attempt}
            where = (
                "cluster = :cluster AND attempt = :attempt AND outcome = 'done'"
                " AND substr(note, 1, 11) <> 'in slurmdbd'"
            )
            found = self.database.rows(f"SELECT count(*) FROM act WHERE {where}", values)
            self.database.run(f"UPDATE act SET outcome = 'planned' WHERE {where}", values)
        return int(found[0][0])

    def history(self, job: str, *, faults_since: float = 0.0, but: str = "") -> History:
        """Return how often *job* was requeued by us, who paid, and its roots; what was only observed does not count.

        Requeues that infrastructure paid count from *faults_since* (Unix seconds) on. *but* is the key of an attempt
        that is left out.
        """
        found = self.database.rows(
            "SELECT requeue, count(*) FROM interruption AS i WHERE cluster = :cluster AND job = :job"
            " AND attempt <> :but AND (requeue <> :infrastructure OR decided_at >= :faults_since) AND EXISTS"
            " (SELECT 1 FROM act WHERE act.cluster = i.cluster AND act.attempt = i.attempt"
            " AND kind = 'requeue' AND outcome IN ('planned', 'done')) GROUP BY requeue",
            {
                "cluster": self.cluster,
                "job": job,
                "but": but,
                "infrastructure": Payer.INFRASTRUCTURE.value,
                "faults_since": faults_since,
            },
        )
        count: dict[str, int] = {requeue: number for requeue, number in found}  # noqa: C416 - says what the pair is
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

    def failed_nodes(self, most: int) -> list[str]:
        """Return at most *most* nodes of this cluster that hardware has failed on, the last first, however long ago.

        They were suspected of a job's end, or were out: of these it is their return that counts. Running sums are read.
        """
        values = {"cluster": self.cluster, "most": most}
        newest = " GROUP BY node ORDER BY at DESC, node LIMIT :most"
        suspected = self.database.rows(
            "SELECT node, max(last) AS at FROM sum_node WHERE cluster = :cluster AND number > 0"
            f" AND label LIKE 'hardware/%'{newest}",
            values,
        )
        out = self.database.rows(f"SELECT node, max(at) AS at FROM node_state WHERE cluster = :cluster{newest}", values)
        last: dict[str, float] = {}
        for node, at in (*suspected, *out):
            last[node] = max(at, last.get(node, 0.0))
        return last_failed_first(last, most)

    def interruptions(self, *, job: str | None = None, since: float = 0.0) -> Iterator[Interruption]:
        """Yield interruptions, oldest first: of this cluster's *job*, or all that were decided since *since*.

        *since* is in Unix seconds. With several clusters in one ledger, all of them speak where no job is named.
        """
        at, last = since, ""
        while page := self.database.rows(
            "SELECT i.decided_at, i.id, body.body FROM interruption AS i JOIN body ON body.id = i.id"
            " WHERE (i.decided_at > :at OR (i.decided_at = :at AND i.id > :last))"
            + (" AND i.cluster = :cluster AND i.job = :job" if job is not None else "")
            + f" ORDER BY i.decided_at, i.id LIMIT {PAGE}",
            {"at": at, "last": last, "cluster": self.cluster, "job": job},
        ):
            for _, _, body in page:
                yield codec.loads(Interruption, body)
            at, last = page[-1][:2]

    def of_attempt(self, attempt: str) -> list[Interruption]:
        """Return the interruption with this attempt's key, or nothing."""
        key = rows.identity(self.cluster, attempt)
        found = self.database.rows("SELECT body FROM body WHERE id = :id", {"id": key})
        return [codec.loads(Interruption, body) for (body,) in found]

    def record_quarantine(self, quarantine: Quarantine) -> None:
        """Record that a node was taken out, would have been, or came back; what was done changes its state, too."""
        with self.database.transaction():
            writing.write_quarantine(self.database, self.cluster, quarantine)
            if quarantine.outcome is Outcome.DONE and quarantine.first:
                self._write_state(NodeState(quarantine.node, "out", quarantine.at, quarantine.reason))
            elif quarantine.outcome in {Outcome.RELEASED, Outcome.UNDONE}:
                self._write_state(NodeState(quarantine.node, "back", quarantine.at, quarantine.note))

    def quarantines(self, *, node: str | None = None, since: float = 0.0) -> list[Quarantine]:
        """Return quarantines, oldest first: of this cluster's *node*, or all since *since* (Unix seconds)."""
        found = self.database.rows(
            "SELECT body FROM quarantine WHERE (:node IS NULL OR (cluster = :cluster AND node = :node))"
            " AND at >= :since ORDER BY at, id",
            {"node": node, "cluster": self.cluster, "since": since},
        )
        return [codec.loads(Quarantine, body) for (body,) in found]

    def record_node_state(self, state: NodeState) -> None:
        """Record that a node's state has changed; the same change is written once."""
        with self.database.transaction():
            self._write_state(state)

    def _write_state(self, state: NodeState) -> None:
        values = {
            "cluster": self.cluster,
            "node": state.node,
            "at": state.at,
            "state": state.state,
            "reason": state.reason,
        }
        self.database.run(rows.insert("node_state", values), values)

    def node_states(self, *, node: str | None = None) -> list[NodeState]:
        """Return the changes of this cluster's nodes, or of one *node*, oldest first."""
        found = self.database.rows(
            "SELECT node, state, at, reason FROM node_state WHERE cluster = :cluster"
            " AND (:node IS NULL OR node = :node) ORDER BY at, node, state",
            {"cluster": self.cluster, "node": node},
        )
        return [NodeState(*each) for each in found]

    def forget(self, before: float, most: int = PAGE) -> int:
        """Drop up to *most* interruptions that were decided before *before* (Unix seconds) and return how many went.

        *before* is moved back to the start of its month of sums. With the last interruptions go the runs, sums,
        quarantines and node states of that time.
        """
        before = sums.start_of_month(before)
        old = self.database.rows(
            "SELECT id, cluster, attempt FROM interruption WHERE decided_at < :before"
            " ORDER BY decided_at, id LIMIT :most",
            {"before": before, "most": most},
        )
        values = [{"id": key, "cluster": cluster, "attempt": attempt} for key, cluster, attempt in old]
        with self.database.transaction():
            if values:
                self.database.run_many("DELETE FROM act WHERE cluster = :cluster AND attempt = :attempt", values)
            for table in ("body", "suspect", "finding", "interruption") if values else ():
                self.database.run_many(f"DELETE FROM {table} WHERE id = :id", values)
            if len(old) < most:
                sums.forget(self.database, before)
                for table, column in (("run", "ended_at"), ("quarantine", "at"), ("node_state", "at")):
                    self.database.run(f"DELETE FROM {table} WHERE {column} < :before", {"before": before})
        return len(old)


def _require_current(database: Database) -> None:
    if schema.is_behind(database):
        raise LedgerError(
            f"the ledger {database.name} is of an older version; the controller service brings it up to date"
        )
