"""The few counts of a cluster's record that are asked for every few seconds: cheap however long the record is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wheeltapper.ledger.model import Outcome
from wheeltapper.ledger.store import Ledger


@dataclass(frozen=True, slots=True)
class Tally:
    """Interruptions and lost GPU seconds by label; acts that are planned or failed; quarantines by outcome."""

    kinds: Mapping[str, tuple[int, int]]
    acts: Mapping[str, int]
    quarantines: Mapping[str, int]


def tally(ledger: Ledger) -> Tally:
    """Return the counts of the ledger's own cluster.

    Raises:
        LedgerError: the ledger cannot be read.
    """
    values = {"cluster": ledger.cluster, "planned": Outcome.PLANNED.value, "failed": Outcome.FAILED.value}
    kinds = ledger.database.rows(
        "SELECT label, sum(number), sum(lost_s) FROM sum_kind WHERE cluster = :cluster GROUP BY label", values
    )
    acts = ledger.database.rows(
        "SELECT outcome, count(*) FROM act WHERE cluster = :cluster AND outcome IN (:planned, :failed)"
        " GROUP BY outcome",
        values,
    )
    quarantines = {
        each.value: ledger.database.rows(
            "SELECT count(*) FROM quarantine WHERE cluster = :cluster AND id LIKE :ending",
            {**values, "ending": f"%/{each.value}"},
        )[0][0]
        for each in Outcome
    }
    return Tally({label: (int(count), int(lost)) for label, count, lost in kinds}, dict(acts), quarantines)
