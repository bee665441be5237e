"""Reads from the ledger what the statistics learn from, and keeps what was learned until it is learned anew.

Reading is quick and bounded: the newest :data:`ROWS_MAX` interruptions and runs of a span. Learning takes a second on a
busy machine and touches no database, so that the controller service can do it in a thread while nodes are answered.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from wheeltapper.diagnosis.lessons import APPLICATION, INSTEAD_OF, PATTERN, REPETITION, Lessons
from wheeltapper.labels import is_fault
from wheeltapper.ledger.store import Ledger
from wheeltapper.statistics.patterns import clock, co_starts, exposure_of, recurring_hours
from wheeltapper.statistics.repetition import Fault, repeated

MEMORY_S = 180 * 86_400.0
"""Patterns of half a year ago belong to machines and schedules that have changed."""

ROWS_MAX = 4_000

_kept: WeakKeyDictionary[Ledger, Lessons] = WeakKeyDictionary()


@dataclass(frozen=True, slots=True)
class Material:
    """What was read, in Unix seconds.

    Application faults on GPUs, and how many GPUs the largest job had; moments and jobs of faults by label; starts by
    the job's name; and when anything ran.
    """

    faults: Sequence[Fault]
    gpus: int
    events: Mapping[str, Sequence[tuple[float, str]]]
    starts: Mapping[str, Sequence[float]]
    spans: Sequence[tuple[float, float]]


def lessons(ledger: Ledger) -> Lessons:
    """Return what was learned last; nothing before :func:`keep` was called."""
    return _kept.get(ledger, Lessons())


def keep(ledger: Ledger, learned: Lessons) -> None:
    """Remember *learned* for :func:`lessons`."""
    _kept[ledger] = learned


def learn(material: Material) -> Lessons:
    """Return what *material* teaches. Pure."""
    moments = {label: [at for at, _ in found] for label, found in material.events.items()}
    followed = co_starts(material.events, material.starts)
    return Lessons(
        {(each.node, each.gpu): each for each in repeated(material.faults, material.gpus)},
        tuple(recurring_hours(moments, clock, exposure_of(material.spans, clock))),
        tuple(followed),
        {each.job: tuple(material.starts[each.job]) for each in followed},
    )


def material(ledger: Ledger, since: float, until: float) -> Material:
    """Read what this cluster's record holds from *since* up to *until* (Unix seconds).

    Raises:
        LedgerError: the ledger cannot be read.
    """
    values = {"cluster": ledger.cluster, "since": since, "until": until, "pattern": PATTERN, "most": ROWS_MAX}
    stopped = ledger.database.rows(
        "SELECT i.label, f.detail, i.ended_at, i.run_s, i.job_name, i.gpus FROM interruption AS i"
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
    for label, detail, ended_at, run_s, name, _ in stopped:
        named = (detail or "").removeprefix(INSTEAD_OF) or label
        if is_fault(named):
            events[named].append((ended_at, name))
        starts[name].append(ended_at - run_s)
        spans.append((ended_at - run_s, ended_at))
    for start, _, name in completed:
        starts[name].append(start)
    starts.pop("", None)
    return Material(
        _faults(ledger, since, until), max((gpus for *_, gpus in stopped), default=0), events, starts, spans
    )


def _faults(ledger: Ledger, since: float, until: float) -> list[Fault]:
    """Return the application faults on GPUs; an end that repetition has made a suspicion still counts."""
    values = {"cluster": ledger.cluster, "since": since, "until": until, "repetition": REPETITION, "most": ROWS_MAX}
    names = {f"label_{chr(97 + number)}": name for number, name in enumerate(APPLICATION)}
    found = ledger.database.rows(
        "SELECT DISTINCT f.node, f.gpu, i.job, i.job_name, i.user_name FROM interruption AS i"
        " JOIN finding AS f ON f.id = i.id WHERE i.id IN (SELECT id FROM interruption WHERE cluster = :cluster"
        " AND decided_at >= :since AND decided_at < :until ORDER BY decided_at DESC LIMIT :most)"
        " AND f.source = 'kernel' AND f.node <> '' AND f.gpu <> ''"
        f" AND (i.label IN ({', '.join(f':{name}' for name in names)}) OR EXISTS"
        " (SELECT 1 FROM finding AS r WHERE r.id = i.id AND r.signature = :repetition))",
        {**values, **names},
    )
    return [Fault(*each) for each in found]
