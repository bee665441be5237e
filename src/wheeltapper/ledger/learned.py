"""Reads from the ledger what the statistics learn from, and keeps what was learned for a while.

What is read is bounded: the newest :data:`ROWS_MAX` rows of the last :data:`MEMORY_S` seconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from wheeltapper.diagnosis.lessons import APPLICATION, INSTEAD_OF, PATTERN, REPETITION, Lessons
from wheeltapper.labels import is_fault
from wheeltapper.ledger.store import Ledger
from wheeltapper.statistics.patterns import HourPattern, StartPattern, clock, co_starts, exposure_of, recurring_hours
from wheeltapper.statistics.repetition import Fault, Repeated, repeated

MEMORY_S = 180 * 86_400.0
"""Patterns of half a year ago belong to machines and schedules that have changed."""

ROWS_MAX = 20_000

FRESH_S = 3600.0
"""How long lessons serve: one more interruption changes none of them by itself."""

_kept: WeakKeyDictionary[Ledger, tuple[float, Lessons]] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Patterns:
    """What keeps to a time, with the starts (Unix seconds) of the jobs that are followed."""

    hours: tuple[HourPattern, ...]
    followed: tuple[StartPattern, ...]
    starts: Mapping[str, tuple[float, ...]]


def lessons(ledger: Ledger, now: float) -> Lessons:
    """Return what the record teaches at *now* (Unix seconds); looked at again once an hour.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    at, known = _kept.get(ledger, (float("-inf"), Lessons()))
    if 0 <= now - at < FRESH_S:
        return known
    found = patterns(ledger, now - MEMORY_S, now)
    places = {(each.node, each.gpu): each for each in repetitions(ledger, now - MEMORY_S)}
    learned = Lessons(places, found.hours, found.followed, found.starts)
    _kept[ledger] = now, learned
    return learned


def repetitions(ledger: Ledger, since: float) -> list[Repeated]:
    """Return the GPUs of this cluster on which application faults have repeated since *since*."""
    values = {"cluster": ledger.cluster, "since": since, "repetition": REPETITION, "most": ROWS_MAX}
    names = {f"label_{chr(97 + number)}": name for number, name in enumerate(APPLICATION)}
    found = ledger.database.rows(
        "SELECT DISTINCT f.node, f.gpu, i.job, i.job_name, i.user_name FROM interruption AS i"
        " JOIN finding AS f ON f.id = i.id WHERE i.cluster = :cluster AND i.decided_at >= :since"
        " AND f.source = 'kernel' AND f.node <> '' AND f.gpu <> ''"
        f" AND (i.label IN ({', '.join(f':{name}' for name in names)}) OR EXISTS"
        " (SELECT 1 FROM finding AS r WHERE r.id = i.id AND r.signature = :repetition)) LIMIT :most",
        {**values, **names},
    )
    largest = ledger.database.rows(
        "SELECT max(gpus) FROM interruption WHERE cluster = :cluster AND decided_at >= :since", values
    )
    return repeated((Fault(*each) for each in found), int(largest[0][0] or 0))


def patterns(ledger: Ledger, since: float, until: float) -> Patterns:
    """Return to which hours and which jobs' starts the faults of this cluster keep, from *since* up to *until*."""
    values = {"cluster": ledger.cluster, "since": since, "until": until, "pattern": PATTERN, "most": ROWS_MAX}
    stopped = ledger.database.rows(
        "SELECT i.label, f.detail, i.ended_at, i.run_s, i.job_name FROM interruption AS i"
        " LEFT JOIN finding AS f ON f.id = i.id AND f.position = 0 AND f.signature = :pattern"
        " WHERE i.cluster = :cluster AND i.decided_at >= :since AND i.decided_at < :until"
        " ORDER BY i.decided_at DESC LIMIT :most",
        values,
    )
    completed = ledger.database.rows(
        "SELECT started_at, ended_at, job_name FROM run WHERE cluster = :cluster AND ended_at >= :since"
        " AND ended_at < :until ORDER BY ended_at DESC LIMIT :most",
        values,
    )
    events: dict[str, list[tuple[float, str]]] = defaultdict(list)
    starts: dict[str, list[float]] = defaultdict(list)
    spans = [(start, end) for start, end, _ in completed]
    for label, detail, ended_at, run_s, name in stopped:
        named = (detail or "").removeprefix(INSTEAD_OF) or label
        if is_fault(named):
            events[named].append((ended_at, name))
        starts[name].append(ended_at - run_s)
        spans.append((ended_at - run_s, ended_at))
    for start, _, name in completed:
        starts[name].append(start)
    starts.pop("", None)
    moments = {label: [at for at, _ in found] for label, found in events.items()}
    followed = co_starts(events, starts)
    return Patterns(
        tuple(recurring_hours(moments, clock, exposure_of(spans, clock))),
        tuple(followed),
        {each.job: tuple(starts[each.job]) for each in followed},
    )
