"""What the controller service tells Prometheus: work in hand from its journal, what became of it from the ledger."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from wheeltapper import __version__
from wheeltapper.errors import LedgerError
from wheeltapper.ledger.model import Outcome
from wheeltapper.ledger.tally import Tally, tally
from wheeltapper_slurm.limits import WHY
from wheeltapper_slurm.parts import Parts

log = logging.getLogger(__name__)


def families(parts: Parts) -> Iterator[Metric]:
    """Yield the metrics of the service; those of a ledger that cannot be read are left out, and ``ledger_up`` is 0."""
    info = GaugeMetricFamily(
        "wheeltapper_controller_info", "1; the labels say which version runs in which mode.", labels=["version", "mode"]
    )
    info.add_metric([__version__, parts.config.policy.mode.value], 1)
    yield info
    refused = CounterMetricFamily(
        "wheeltapper_refused_messages", "Messages and connections that the service dropped, by why.", labels=["why"]
    )
    for why in WHY:
        refused.add_metric([why], parts.refusals.counts[why])
    yield refused
    found = None
    try:
        found = tally(parts.ledger)
        waiting = parts.journal.attempts()
    except (LedgerError, sqlite3.Error) as error:
        log.warning("metrics without the record: %s", error)
        waiting = []
    yield GaugeMetricFamily(
        "wheeltapper_ledger_up", "1 while the journal and the ledger can be read.", value=float(found is not None)
    )
    if found is None:
        return
    yield GaugeMetricFamily(
        "wheeltapper_open_attempts", "Attempts that ended and are not decided yet.", value=float(len(waiting))
    )
    oldest = min((attempt.ended.at for attempt in waiting), default=None)
    yield GaugeMetricFamily(
        "wheeltapper_oldest_open_attempt_seconds",
        "For how long the oldest of them waits.",
        value=0.0 if oldest is None else max(0.0, parts.clock() - oldest),
    )
    yield from _record(found)


def _record(found: Tally) -> Iterator[Metric]:
    interruptions = CounterMetricFamily(
        "wheeltapper_interruptions", "Interruptions in the ledger, by label.", labels=["label"]
    )
    lost = CounterMetricFamily(
        "wheeltapper_lost_gpu_seconds", "GPU seconds that ran since the last checkpoint, by label.", labels=["label"]
    )
    for label, (count, lost_s) in sorted(found.kinds.items()):
        interruptions.add_metric([label], count)
        lost.add_metric([label], lost_s)
    yield interruptions
    yield lost
    acts = GaugeMetricFamily(
        "wheeltapper_acts", "Acts on jobs that are still to be done, or have failed.", labels=["outcome"]
    )
    for outcome in (Outcome.PLANNED, Outcome.FAILED):
        acts.add_metric([outcome.value], found.acts.get(outcome.value, 0))
    yield acts
    quarantines = CounterMetricFamily(
        "wheeltapper_quarantines", "Nodes that were to be taken out, by what became of it.", labels=["outcome"]
    )
    for each in Outcome:
        if each is not Outcome.PLANNED:
            quarantines.add_metric([each.value], found.quarantines.get(each.value, 0))
    yield quarantines
