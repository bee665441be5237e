"""What an operator tells Prometheus: what it sees of the cluster, and what it has done since it started.

Only the replica that leads acts, counts, and knows what waits: what the others tell of that is 0. So all of it is
summed over replicas, but the nodes that are out, which every one of them sees.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from wheeltapper import __version__, metrics
from wheeltapper.config import MetricsSection
from wheeltapper.labels import ALL
from wheeltapper.ledger.model import Outcome
from wheeltapper_operator.operator import Operator

log = logging.getLogger(__name__)


@asynccontextmanager
async def shown(section: MetricsSection, operator: Operator) -> AsyncIterator[None]:
    """Answer to Prometheus where *section* says; a port that cannot be had is logged, and the work goes on without."""
    server = None
    try:
        server = await metrics.serve(section.address, section.operator_port or 0, lambda: families(operator))
    except OSError as error:
        log.error("no metrics: %s", error)
    try:
        yield
    finally:
        if server is not None:
            server.close()


def families(operator: Operator) -> Iterator[Metric]:
    """Yield the metrics of *operator*."""
    parts = operator.parts
    info = GaugeMetricFamily(
        "wheeltapper_operator_info", "1; the labels say which version runs in which mode.", labels=["version", "mode"]
    )
    info.add_metric([__version__, parts.settings.policy.mode.value], 1)
    yield info
    yield GaugeMetricFamily(
        "wheeltapper_operator_leads", "1 for the replica that acts, else 0.", value=float(operator.leader.leads)
    )
    yield CounterMetricFamily(
        "wheeltapper_operator_writes", "Writes to the API server, events included.", value=float(parts.api.writes)
    )
    yield from _waiting(operator, parts.clock())
    yield from _record(operator)
    out = GaugeMetricFamily("wheeltapper_nodes_out", "Nodes that are out by our doing, by label.", labels=["label"])
    taints = Counter(node.taint.value.replace(".", "/", 1) for node in operator.keeper.nodes if node.taint is not None)
    for label in sorted(ALL & taints.keys()):
        out.add_metric([label], float(taints[label]))
    yield out


def _waiting(operator: Operator, now: float) -> Iterator[Metric]:
    # The others gather as well, to be ready to lead, and drop nothing.
    keepers = operator.jobs if operator.leader.leads else []
    undecided = [since for keeper in keepers for since in keeper.undecided()]
    yield GaugeMetricFamily(
        "wheeltapper_open_attempts", "Attempts that ended and are not decided yet.", value=float(len(undecided))
    )
    yield GaugeMetricFamily(
        "wheeltapper_oldest_open_attempt_seconds", "For how long the oldest of them waits.", value=_age(undecided, now)
    )
    moving = [since for keeper in keepers for since in keeper.under_way()]
    yield GaugeMetricFamily(
        "wheeltapper_open_requeues", "Gangs that are to run again and do not yet.", value=float(len(moving))
    )
    yield GaugeMetricFamily(
        "wheeltapper_oldest_open_requeue_seconds",
        "For how long the oldest of them waits, its intended delay not counted.",
        value=_age(moving, now),
    )


def _record(operator: Operator) -> Iterator[Metric]:
    counts = operator.parts.counts
    interruptions = CounterMetricFamily("wheeltapper_interruptions", "Interruptions, by label.", labels=["label"])
    for label in sorted(ALL):  # from 0 on: an increase from nothing to 1 is none for Prometheus
        interruptions.add_metric([label], float(counts.interruptions[label]))
    yield interruptions
    quarantines = CounterMetricFamily(
        "wheeltapper_quarantines", "Nodes that were to be taken out, by what became of it.", labels=["outcome"]
    )
    for each in Outcome:
        if each is not Outcome.PLANNED:
            quarantines.add_metric([each.value], float(counts.quarantines[each.value]))
    yield quarantines


def _age(since: Sequence[float], now: float) -> float:
    return max(0.0, now - min(since, default=now))
