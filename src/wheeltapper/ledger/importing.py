"""Records what another program has kept of the time before us. What is recorded already stays as it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from wheeltapper.attempt import Attempt, Ending
from wheeltapper.config import Mode
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.ledger import writing
from wheeltapper.ledger.model import Interruption
from wheeltapper.ledger.store import Ledger
from wheeltapper.policy.model import Decision, JobAction

PAGE = 1000

NOTHING_DECIDED = Decision(JobAction(False, "it was imported, and nothing was decided about it"))


@dataclass(frozen=True, slots=True)
class Imported:
    """How many attempts were new to the ledger, and how many it was given."""

    interruptions: int
    runs: int
    given: int


def take_in(ledger: Ledger, attempts: Iterable[Attempt], source: str, window_s: float) -> Imported:
    """Record *attempts*: those that completed as runs, all others as interruptions with what their end alone says.

    Raises:
        LedgerError: the ledger cannot be written; pages before that one are kept, and doing it again is safe.
    """
    total = Imported(0, 0, 0)
    waiting = iter(attempts)
    while page := list(islice(waiting, PAGE)):
        completed = [each for each in page if each.ending is Ending.COMPLETED]
        stopped = [_interruption(each, window_s) for each in page if each.ending is not Ending.COMPLETED]
        with ledger.database.transaction():
            total = Imported(
                total.interruptions
                + writing.write(ledger.database, ledger.cluster, stopped, source, ledger.checkpoint_s),
                total.runs + writing.write_runs(ledger.database, ledger.cluster, completed),
                total.given + len(page),
            )
    return total


def take_over(ledger: Ledger, interruptions: Iterable[Interruption], source: str) -> Imported:
    """Record *interruptions* that were diagnosed when they happened, as they stand.

    All or none: *interruptions* may raise while it is read, and then nothing was written.

    Raises:
        LedgerError: the ledger cannot be written.
    """
    given = tuple(interruptions)
    with ledger.database.transaction():
        new = writing.write(ledger.database, ledger.cluster, given, source, ledger.checkpoint_s)
    return Imported(new, 0, len(given))


def _interruption(attempt: Attempt, window_s: float) -> Interruption:
    ended = attempt.end if attempt.end is not None else attempt.start or 0.0
    return Interruption(attempt, diagnose([], attempt, window_s=window_s), NOTHING_DECIDED, Mode.OBSERVE, ended)
