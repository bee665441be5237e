"""All that a report tells of a span of time, read from the ledger and worked out: what the page and the summary show.

The sums cover everything; what needs single rows (patterns, times to decide, the map of nodes) looks at the newest
:data:`ROWS_MAX`, and says so nowhere because a year of most clusters holds fewer.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from wheeltapper.errors import WheeltapperError
from wheeltapper.ledger.learned import learn, material
from wheeltapper.ledger.store import Ledger
from wheeltapper.ledger.sums import DAY_S
from wheeltapper.ledger.totals import Exposure, Totals, totals
from wheeltapper.statistics import lemons
from wheeltapper.statistics.badput import Span, WallTime, median_and_quartiles, wall_time
from wheeltapper.statistics.exact import Interval
from wheeltapper.statistics.mttf import Rate, by, mttf, size_class

ROWS_MAX = 20_000
NODES_MAX = 24
COLUMNS_MAX = 30


@dataclass(frozen=True, slots=True)
class Reliability:
    """What failed of one kind of thing: jobs of a size or a partition, nodes, GPUs; ``mttf`` in hours of it."""

    name: str
    failures: int
    hours: float
    mttf: Interval


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node on the map: how often it was suspected in each column, each ``width`` days of the survey wide."""

    node: str
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AttemptBar:
    """One attempt of a job: when it ran (Unix seconds), and the label of its end; none when it completed."""

    start: float
    end: float
    label: str
    sentence: str


@dataclass(frozen=True, slots=True)
class JobStory:
    """One job's attempts, and where its wall time went."""

    job: str
    attempts: tuple[AttemptBar, ...]
    wall_time: WallTime


@dataclass(frozen=True, slots=True)
class Survey:
    """A report. ``days`` holds for each day (Unix seconds of its start) how many interruptions each family had.

    ``decide_s`` is from an attempt's end to the decision on it, ``recover_s`` from there to the job's next start.
    """

    cluster: str
    totals: Totals
    days: tuple[tuple[float, tuple[tuple[str, int], ...]], ...]
    sizes: tuple[Reliability, ...]
    partitions: tuple[Reliability, ...]
    machines: tuple[Reliability, ...]
    column_days: float
    nodes: tuple[NodeRow, ...]
    lemons: tuple[lemons.Lemon, ...]
    lessons: tuple[str, ...]
    decide_s: Interval
    recover_s: Interval
    job: JobStory | None


def survey(ledger: Ledger, since: float, until: float, job: str | None = None) -> Survey:
    """Return what the ledger tells from *since* up to *until* (Unix seconds), and the story of *job* where asked for.

    Raises:
        LedgerError: the ledger cannot be read. WheeltapperError: nothing is recorded of *job*.
    """
    sums = totals(ledger, since, until, NODES_MAX)
    faults = _node_faults(ledger, since, until)
    column_s = max(DAY_S, (until - since) / COLUMNS_MAX)
    decide_s, recover_s = _times(ledger, since, until)
    largest = max((each.nodes for each in sums.exposures), default=0)
    learned = learn(material(ledger, since, until))
    return Survey(
        cluster=ledger.cluster,
        totals=sums,
        days=_days(ledger, since, until),
        sizes=_by_size(sums.exposures),
        partitions=_by_partition(sums.exposures),
        machines=_machines(sums),
        column_days=column_s / DAY_S,
        nodes=_map(faults, since, until, column_s),
        lemons=tuple(lemons.lemons(faults, max(largest, len({each.node for each in faults})), until)),
        lessons=(
            *(each.sentence for each in learned.repeated.values()),
            *(each.sentence for each in learned.hours),
            *(each.sentence for each in learned.followed),
        ),
        decide_s=decide_s,
        recover_s=recover_s,
        job=None if job is None else _job(ledger, job),
    )


def _days(ledger: Ledger, since: float, until: float) -> tuple[tuple[float, tuple[tuple[str, int], ...]], ...]:
    first, last = int(since // DAY_S), int(until // DAY_S)
    counts: dict[int, Counter[str]] = defaultdict(Counter)
    for day, label, number in ledger.database.rows(
        "SELECT day, label, sum(number) FROM sum_kind WHERE day >= :first AND day <= :last GROUP BY day, label",
        {"first": first, "last": last},
    ):
        counts[day][label.partition("/")[0]] += int(number)
    return tuple((day * DAY_S, tuple(sorted(counts[day].items()))) for day in range(first, last + 1))


def _by_size(exposures: Sequence[Exposure]) -> tuple[Reliability, ...]:
    rates = by(lambda each: size_class(each.nodes), lambda each: Rate(each.faults, each.hours), exposures)
    return tuple(_reliability(f"up to {size} nodes" if size > 1 else "1 node", rates[size]) for size in sorted(rates))


def _by_partition(exposures: Sequence[Exposure]) -> tuple[Reliability, ...]:
    rates = by(
        lambda each: each.partition or "no partition",
        lambda each: Rate(each.faults, each.hours * each.nodes),
        exposures,
    )
    return tuple(_reliability(name, rates[name]) for name in sorted(rates))


def _machines(sums: Totals) -> tuple[Reliability, ...]:
    failures = sum(kind.count for kind in sums.kinds if kind.label.startswith("hardware/"))
    nodes = Rate(failures, sum(each.hours * each.nodes for each in sums.exposures))
    gpus = Rate(failures, sum(each.gpu_hours for each in sums.exposures))
    return tuple(_reliability(name, rate) for name, rate in (("node", nodes), ("GPU", gpus)) if rate.hours > 0)


def _reliability(name: str, rate: Rate) -> Reliability:
    return Reliability(name, rate.failures, rate.hours, mttf(rate))


def _node_faults(ledger: Ledger, since: float, until: float) -> list[lemons.Fault]:
    found = ledger.database.rows(
        "SELECT DISTINCT node, id, decided_at FROM suspect WHERE label >= 'hardware/' AND label < 'hardware0'"
        " AND decided_at >= :since AND decided_at < :until ORDER BY decided_at DESC, node LIMIT :most",
        {"since": since, "until": until, "most": ROWS_MAX},
    )
    return [lemons.Fault(node, at) for node, _, at in found]


def _map(faults: Sequence[lemons.Fault], since: float, until: float, column_s: float) -> tuple[NodeRow, ...]:
    columns = max(1, -int(-(until - since) // column_s))
    cells: dict[str, list[int]] = defaultdict(lambda: [0] * columns)
    for each in faults:
        cells[each.node][min(columns - 1, int((each.at - since) / column_s))] += 1
    worst = sorted(cells, key=lambda node: (-sum(cells[node]), node))[:NODES_MAX]
    return tuple(NodeRow(node, tuple(cells[node])) for node in worst)


def _times(ledger: Ledger, since: float, until: float) -> tuple[Interval, Interval]:
    values = {"since": since, "until": until, "most": ROWS_MAX}
    stopped = ledger.database.rows(
        "SELECT cluster, job, ended_at, decided_at, run_s FROM interruption"
        " WHERE decided_at >= :since AND decided_at < :until AND source = 'wheeltapper'"
        " ORDER BY decided_at DESC LIMIT :most",
        values,
    )
    completed = ledger.database.rows(
        "SELECT cluster, job, started_at FROM run WHERE ended_at >= :since AND ended_at < :until"
        " ORDER BY ended_at DESC LIMIT :most",
        values,
    )
    starts: dict[tuple[str, str], list[float]] = defaultdict(list)
    for cluster, job, ended_at, _, run_s in stopped:
        starts[cluster, job].append(ended_at - run_s)
    for cluster, job, started_at in completed:
        starts[cluster, job].append(started_at)
    waits = []
    for cluster, job, ended_at, decided_at, _ in stopped:
        later = [at for at in starts[cluster, job] if at >= ended_at]
        if later:
            waits.append(max(0.0, min(later) - decided_at))
    decides = [max(0.0, decided_at - ended_at) for _, _, ended_at, decided_at, _ in stopped]
    return median_and_quartiles(decides), median_and_quartiles(waits)


def _job(ledger: Ledger, job: str) -> JobStory:
    bars, spans = [], []
    for each in ledger.interruptions(job=job):
        end = each.decided_at if each.attempt.end is None else each.attempt.end
        start = end if each.attempt.start is None else each.attempt.start
        bars.append(AttemptBar(start, end, each.diagnosis.label, each.diagnosis.sentence))
        spans.append(Span(start, end, decided_at=each.decided_at))
    for start, end in ledger.database.rows(
        "SELECT started_at, ended_at FROM run WHERE cluster = :cluster AND job = :job ORDER BY started_at",
        {"cluster": ledger.cluster, "job": job},
    ):
        bars.append(AttemptBar(start, end, "", "completed"))
        spans.append(Span(start, end, completed=True))
    if not bars:
        raise WheeltapperError(f"nothing is recorded of job {job}")
    return JobStory(
        job,
        tuple(sorted(bars, key=lambda bar: bar.start)),
        wall_time(sorted(spans, key=lambda span: span.start), ledger.checkpoint_s),
    )
