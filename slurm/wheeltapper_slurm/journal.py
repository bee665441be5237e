"""The service's memory between a job's end and the decision on it: what a restart must not lose.

Everything that arrives is written here before it is answered or its file is removed, and goes when its attempt is
decided. It lives in a file of its own beside the ledger: the ledger is a record for years, this is work in hand.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from wheeltapper import codec
from wheeltapper.errors import WheeltapperError
from wheeltapper.wire import Leave, LogReport, Report
from wheeltapper_slurm.spool import Ended

ORPHAN_S = 86_400.0
"""Reports and leaves that no attempt claimed are dropped after a day: their job ended before we were installed."""

EXCLUSION_S = 30 * 86_400.0
"""What we excluded from a job is forgotten after a month: suspects that were never out do not come back either. So is
that we have ended or requeued it."""

_OF_JOB = "(job = :job OR job IN (SELECT component.job FROM component WHERE leader = :job))"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS open_attempt (
    key TEXT PRIMARY KEY, job TEXT NOT NULL, start REAL, batch_host TEXT, deadline REAL NOT NULL, body TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS report (
    job TEXT NOT NULL, node TEXT NOT NULL, kind TEXT NOT NULL, epilog_at REAL NOT NULL, received_at REAL NOT NULL,
    body TEXT NOT NULL, PRIMARY KEY (job, node, kind, epilog_at)
);
CREATE TABLE IF NOT EXISTS exclusion (job TEXT NOT NULL, node TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (job, node));
CREATE TABLE IF NOT EXISTS epilog (job TEXT NOT NULL, node TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (job, node));
CREATE TABLE IF NOT EXISTS avoided (job TEXT NOT NULL, node TEXT NOT NULL, at REAL NOT NULL, PRIMARY KEY (job, node));
CREATE TABLE IF NOT EXISTS component (job TEXT PRIMARY KEY, leader TEXT NOT NULL, at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS late (
    key TEXT PRIMARY KEY, job TEXT NOT NULL, start REAL, batch_host TEXT, deadline REAL NOT NULL, body TEXT NOT NULL,
    at REAL NOT NULL, had INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS component_leader ON component (leader);
CREATE TABLE IF NOT EXISTS reboot (node TEXT PRIMARY KEY, key TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS moved (
    attempt TEXT PRIMARY KEY, why TEXT NOT NULL, at REAL NOT NULL, done INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS requeued (job TEXT PRIMARY KEY, attempt TEXT NOT NULL, at REAL NOT NULL, answered REAL);
CREATE TABLE IF NOT EXISTS deed (
    kind TEXT NOT NULL, name TEXT NOT NULL, since REAL NOT NULL, until REAL NOT NULL, PRIMARY KEY (kind, name)
);
CREATE TABLE IF NOT EXISTS kept_off (
    job TEXT NOT NULL, node TEXT NOT NULL, at REAL NOT NULL, body TEXT NOT NULL, PRIMARY KEY (job, node, at)
);
"""


@lru_cache(maxsize=256)
def _ended(body: str) -> Ended:
    """Return the ended job in *body*: each report of a thousand nodes asks for the same one, and so does each round."""
    return codec.loads(Ended, body)


@dataclass(frozen=True, slots=True)
class OpenAttempt:
    """An attempt that ended and is not decided. ``start`` and ``deadline`` are in Unix seconds."""

    key: str
    ended: Ended
    start: float | None
    batch_host: str | None
    deadline: float


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A node that we have added to a job's ExcNodeList, ``at`` in Unix seconds."""

    job: str
    node: str
    at: float


@dataclass(frozen=True, slots=True)
class Deed:
    """What slurmctld was told to do to *name*, from the first time to the last, in Unix seconds."""

    kind: str
    name: str
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Move:
    """A running attempt that was to be ended, and why; ``done`` when it is certain that slurmctld was told."""

    why: str
    done: bool


class Journal:
    """The journal in the SQLite file at *path*; *shared* when two hosts may open it, one after the other.

    Raises:
        WheeltapperError: the file cannot be opened.
    """

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, isolation_level=None)
        except (sqlite3.Error, OSError) as error:
            raise WheeltapperError(f"the journal {path} cannot be opened: {error}") from error
        try:
            # A write-ahead log needs memory that all who open the file share, and two hosts have none.
            self._db.execute(f"PRAGMA journal_mode = {'TRUNCATE' if shared else 'WAL'}")
            self._db.executescript(_SCHEMA)
        except sqlite3.Error as error:
            self._db.close()
            raise WheeltapperError(f"the journal {path} cannot be opened: {error}") from error

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def open(self, attempt: OpenAttempt) -> bool:
        """Write down that an attempt ended; False when that was known."""
        done = self._db.execute(
            "INSERT OR IGNORE INTO open_attempt VALUES (?, ?, ?, ?, ?, ?)",
            (
                attempt.key,
                attempt.ended.id,
                attempt.start,
                attempt.batch_host,
                attempt.deadline,
                codec.dumps(attempt.ended),
            ),
        )
        return bool(done.rowcount)

    def attempts(self, job: str | None = None) -> list[OpenAttempt]:
        """Return the open attempts, those that end first coming first; of one *job*, or all."""
        rows = self._db.execute(
            "SELECT key, body, start, batch_host, deadline FROM open_attempt WHERE :job IS NULL OR job = :job"
            " ORDER BY deadline, key",
            {"job": job},
        )
        return [OpenAttempt(key, _ended(body), start, host, deadline) for key, body, start, host, deadline in rows]

    def receive(self, report: Report | LogReport, now: float) -> None:
        """Write down a node's report; the same report sent again changes nothing."""
        self.receive_all([(report, now)])

    def receive_all(self, reports: Sequence[tuple[Report | LogReport, float]]) -> None:
        """Write down reports, each with when it came, all or none of them."""
        rows = [
            (report.stay.job, report.node, report.kind, report.stay.epilog_at or now, now, codec.dumps(report))
            for report, now in reports
        ]
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT OR REPLACE INTO report VALUES (?, ?, ?, ?, ?, ?)", rows)

    def join(self, component: str, leader: str, now: float) -> None:
        """Write down that the job *component* is a part of the heterogeneous job *leader*."""
        self._db.execute("INSERT OR REPLACE INTO component VALUES (?, ?, ?)", (component, leader, now))

    def is_component(self, job: str) -> bool:
        """True for a part of a heterogeneous job that is not its leader."""
        return self._db.execute("SELECT 1 FROM component WHERE job = ?", (job,)).fetchone() is not None

    def components(self, leader: str) -> list[str]:
        """Return the parts of a heterogeneous job that are known, without the leader itself."""
        rows = self._db.execute("SELECT job FROM component WHERE leader = ? ORDER BY length(job), job", (leader,))
        return [job for (job,) in rows]

    def heard(self, job: str) -> set[str]:
        """Return the nodes that have reported on *job*, on this attempt or another: cheap for a thousand nodes."""
        rows = self._db.execute(
            f"SELECT DISTINCT node FROM report WHERE {_OF_JOB} AND kind = 'report'",  # noqa: S608
            {"job": job},
        )
        return {node for (node,) in rows}

    def reports(self, job: str) -> list[Report]:
        """Return the node reports on *job* and its components in a fixed order."""
        return [codec.loads(Report, body) for body in self._bodies(job, "report")]

    def unclaimed(self, before: float) -> list[tuple[str, int]]:
        """Return the jobs without an open attempt on which nodes have reported, the last of them *before* then.

        Each with how many reports there are.
        """
        rows = self._db.execute(
            "SELECT job, count(*) FROM report WHERE kind = 'report' AND job NOT IN (SELECT job FROM open_attempt)"
            " GROUP BY job HAVING max(received_at) < ? ORDER BY job",
            (before,),
        )
        return rows.fetchall()

    def log_reports(self, job: str) -> list[LogReport]:
        """Return the log reports on *job* and its components in a fixed order."""
        return [codec.loads(LogReport, body) for body in self._bodies(job, "logs")]

    def _bodies(self, job: str, kind: str) -> list[str]:
        rows = self._db.execute(
            f"SELECT body FROM report WHERE {_OF_JOB} AND kind = :kind ORDER BY epilog_at, node, job",  # noqa: S608
            {"job": job, "kind": kind},
        )
        return [body for (body,) in rows]

    def note_epilogs(self, reports: Iterable[Report], now: float) -> None:
        """Remember until when, by its own clock, each node has given account of its job: it may do so once more."""
        rows = [(each.stay.job, each.node, each.stay.epilog_at or now) for each in reports]
        self._db.executemany("INSERT OR REPLACE INTO epilog VALUES (?, ?, ?)", rows)

    def epilogs(self, job: str) -> dict[tuple[str, str], float]:
        """Return what :meth:`note_epilogs` has noted of *job* and its components, by job and node."""
        rows = self._db.execute(f"SELECT job, node, at FROM epilog WHERE {_OF_JOB}", {"job": job})  # noqa: S608
        return {(each, node): at for each, node, at in rows}

    def keep_off(self, leave: Leave, now: float) -> None:
        """Write down that our prolog kept a job off a node, and on which evidence."""
        if leave.job is not None:
            self._db.execute(
                "INSERT OR REPLACE INTO kept_off VALUES (?, ?, ?, ?)", (leave.job, leave.node, now, codec.dumps(leave))
            )

    def kept_off(self, job: str) -> list[tuple[float, Leave]]:
        """Return when and on which evidence our prolog kept *job* off nodes."""
        rows = self._db.execute(
            f"SELECT at, body FROM kept_off WHERE {_OF_JOB} ORDER BY at, node",  # noqa: S608
            {"job": job},
        )
        return [(at, codec.loads(Leave, body)) for at, body in rows]

    def exclude(self, job: str, nodes: Iterable[str], now: float) -> None:
        """Write down that we are about to add *nodes* to the ExcNodeList of *job*."""
        rows = [(job, node, now) for node in nodes]
        self._db.executemany("INSERT OR REPLACE INTO exclusion VALUES (?, ?, ?)", rows)

    def avoid(self, job: str, nodes: Iterable[str], now: float) -> None:
        """Write down that *job* is about to exclude *nodes* since there are better ones, and no longer those before."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("DELETE FROM avoided WHERE job = ?", (job,))
            self._db.executemany("INSERT INTO avoided VALUES (?, ?, ?)", [(job, node, now) for node in nodes])

    def avoided(self, job: str) -> frozenset[str]:
        """Return the nodes that *job* excludes since there are better ones."""
        return frozenset(node for (node,) in self._db.execute("SELECT node FROM avoided WHERE job = ?", (job,)))

    def avoiding(self) -> list[str]:
        """Return the jobs that exclude nodes since there are better ones."""
        return [job for (job,) in self._db.execute("SELECT DISTINCT job FROM avoided ORDER BY job")]

    def requeue(self, job: str, attempt: str, now: float) -> None:
        """Write down that slurmctld is about to be told to requeue *job* after *attempt*.

        Where it was told before, and had no time to answer, it may have been then.
        """
        self._db.execute(
            "INSERT INTO requeued VALUES (?, ?, ?, NULL) ON CONFLICT (job) DO UPDATE SET attempt = excluded.attempt,"
            " at = CASE WHEN attempt = excluded.attempt AND answered IS NULL THEN at ELSE excluded.at END,"
            " answered = NULL",
            (job, attempt, now),
        )

    def note_requeued(self, job: str, attempt: str, now: float) -> None:
        """Write down that slurmctld has done by now, if ever, what it was told with :meth:`requeue`."""
        self._db.execute(
            "UPDATE requeued SET answered = ? WHERE job = ? AND attempt = ? AND answered IS NULL", (now, job, attempt)
        )

    def requeued(self, job: str) -> tuple[float, float] | None:
        """Return from when to when slurmctld was busy with our last requeue of *job*, in Unix seconds."""
        rows = self._db.execute("SELECT at, coalesce(answered, at) FROM requeued WHERE job = ?", (job,))
        return next(((asked, answered) for asked, answered in rows), None)

    def exclusions(self) -> list[Exclusion]:
        """Return which nodes we have excluded from which jobs."""
        rows = self._db.execute("SELECT job, node, at FROM exclusion ORDER BY job, node")
        return [Exclusion(job, node, at) for job, node, at in rows]

    def forget_exclusions(self, job: str, nodes: Iterable[str] | None = None) -> None:
        """*nodes* are no longer excluded from *job* by us; without *nodes*, none is."""
        if nodes is None:
            self._db.execute("DELETE FROM exclusion WHERE job = ?", (job,))
        else:
            rows = [(job, node) for node in nodes]
            self._db.executemany("DELETE FROM exclusion WHERE job = ? AND node = ?", rows)

    def ask_reboot(self, node: str, key: str) -> bool:
        """Write down that *node* is to be rebooted for the fault *key*; False when that was written before."""
        done = self._db.execute(
            "INSERT INTO reboot VALUES (?, ?) ON CONFLICT (node) DO UPDATE SET key = excluded.key"
            " WHERE key != excluded.key",
            (node, key),
        )
        return bool(done.rowcount)

    def forget_reboot(self, node: str) -> None:
        """The reboot of *node* was refused, or is over."""
        self._db.execute("DELETE FROM reboot WHERE node = ?", (node,))

    def note_move(self, attempt: str, why: str, now: float) -> None:
        """Write down that we are about to end the running *attempt*, and why."""
        self._db.execute("INSERT OR REPLACE INTO moved VALUES (?, ?, ?, 0)", (attempt, why, now))

    def note_moved(self, attempt: str, *, done: bool) -> None:
        """Write down whether it is certain that *attempt* was ended."""
        self._db.execute("UPDATE moved SET done = ? WHERE attempt = ?", (done, attempt))

    def move(self, attempt: str) -> Move | None:
        """Return what :meth:`note_move` and :meth:`note_moved` have noted of *attempt*."""
        found = self._db.execute("SELECT why, done FROM moved WHERE attempt = ?", (attempt,)).fetchone()
        return None if found is None else Move(found[0], bool(found[1]))

    def forget_move(self, attempt: str) -> None:
        """Slurmctld has refused to end *attempt*."""
        self._db.execute("DELETE FROM moved WHERE attempt = ?", (attempt,))

    def note_deed(self, kind: str, name: str, now: float) -> None:
        """Write down that slurmctld is about to be told to do *kind* to *name*."""
        self._db.execute(
            "INSERT INTO deed VALUES (?, ?, ?, ?) ON CONFLICT (kind, name) DO UPDATE SET until = excluded.until",
            (kind, name, now, now),
        )

    def deeds(self) -> list[Deed]:
        """Return what slurmctld was told to do lately, and may not have saved."""
        rows = self._db.execute("SELECT kind, name, since, until FROM deed ORDER BY since, kind, name")
        return [Deed(*row) for row in rows]

    def forget_deed(self, deed: Deed) -> None:
        """Slurmctld has saved *deed*, or it was done once more; what was noted of it since is kept."""
        values = (deed.kind, deed.name, deed.until)
        self._db.execute("DELETE FROM deed WHERE kind = ? AND name = ? AND until = ?", values)
        self._db.execute("UPDATE deed SET since = until WHERE kind = ? AND name = ?", values[:2])

    def await_late(self, attempt: OpenAttempt, had: int, now: float) -> None:
        """Keep an attempt, decided without all of its reports, and the *had* ones that came, for another day."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(
                "INSERT OR REPLACE INTO late SELECT *, ?, ? FROM open_attempt WHERE key = ?", (now, had, attempt.key)
            )
            self._db.execute("DELETE FROM open_attempt WHERE key = ?", (attempt.key,))

    def late(self, job: str | None = None) -> list[tuple[OpenAttempt, int]]:
        """Return decided attempts that lacked reports, with how many they had: those of *job*.

        Without *job*: all on whose job something was said since, be it on this attempt or on a later one.
        """
        rows = self._db.execute(
            "SELECT key, body, start, batch_host, deadline, had FROM late AS l WHERE job = :job OR (:job IS NULL AND"
            " (EXISTS (SELECT 1 FROM report WHERE job = l.job AND received_at > l.at) OR EXISTS (SELECT 1 FROM"
            " component AS c JOIN report AS r ON r.job = c.job WHERE c.leader = l.job AND r.received_at > l.at)))"
            " ORDER BY key",
            {"job": job},
        )
        return [
            (OpenAttempt(key, _ended(body), start, host, deadline), had)
            for key, body, start, host, deadline, had in rows
        ]

    def still_late(self, attempt: OpenAttempt, now: float) -> None:
        """What was said until now was of another attempt."""
        self._db.execute("UPDATE late SET at = ? WHERE key = ?", (now, attempt.key))

    def settle(self, attempt: OpenAttempt, used: Iterable[Report | LogReport], now: float) -> None:
        """Forget an attempt that is decided, the reports *used* for it, and what no attempt ever claimed."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("DELETE FROM open_attempt WHERE key = ?", (attempt.key,))
            self._db.execute("DELETE FROM late WHERE key = ? OR at < ?", (attempt.key, now - ORPHAN_S))
            self._db.executemany(
                "DELETE FROM report WHERE job = ? AND node = ? AND kind = ? AND epilog_at = ?",
                [(report.stay.job, report.node, report.kind, report.stay.epilog_at) for report in used],
            )
            self._db.execute(
                f"DELETE FROM kept_off WHERE ({_OF_JOB} AND at <= :ended) OR at < :old",  # noqa: S608
                {"job": attempt.ended.id, "ended": attempt.ended.at, "old": now - ORPHAN_S},
            )
            self._db.execute("DELETE FROM component WHERE at < ?", (now - ORPHAN_S,))
            self._db.execute("DELETE FROM epilog WHERE at < ?", (now - ORPHAN_S,))
            for table in ("exclusion", "avoided", "moved", "requeued"):
                self._db.execute(f"DELETE FROM {table} WHERE at < ?", (now - EXCLUSION_S,))  # noqa: S608
            self._db.execute("DELETE FROM report WHERE received_at < ?", (now - ORPHAN_S,))
