"""What slurmctld's own records say of jobs, nodes and reservations, by the keys that ``scontrol show`` gives them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from wheeltapper.attempt import Attempt, Ending
from wheeltapper.evidence import Finding, Source
from wheeltapper.inputs.judging.slurm import (
    ENDINGS,
    MAINTENANCE,
    NODE_DOWN,
    NODE_REASONS,
    REASONS,
    ending,
    exact_time,
    nodes,
)
from wheeltapper.inputs.model import Document, Line, Reading

_PLANNED = frozenset({"MAINT", "MAINTENANCE"})


@dataclass(frozen=True)
class Record:
    """One record: the value of each key, and the line on which it stands."""

    values: dict[str, tuple[str, Line]]

    def text(self, key: str) -> str:
        value = self.values[key][0] if key in self.values else ""
        return "" if value == "(null)" else value

    def line(self, *keys: str) -> Line:
        return next(self.values[key][1] for key in (*keys, *self.values) if key in self.values)


def of_records(document: Document, records: Iterable[Record]) -> Reading:
    """Return what the *records* in *document* say."""
    findings: list[Finding] = []
    attempts = []
    for record in records:
        if "JobId" in record.values and (attempt := _attempt(record)):
            attempts.append(attempt)
            findings += _of_job(document, record, attempt)
        elif "NodeName" in record.values:
            findings += _of_node(document, record)
        elif "ReservationName" in record.values:
            findings += _of_reservation(document, record)
    return Reading(findings=tuple(findings), attempts=tuple(attempts), jobs=tuple(each.job for each in attempts))


def _attempt(record: Record) -> Attempt | None:
    how = ending(record.text("JobState"))
    if how is None:
        return None
    code, _, signal = record.text("ExitCode").partition(":")
    logs = tuple(dict.fromkeys(path for key in ("StdOut", "StdErr") if (path := record.text(key))))
    return Attempt(
        key=f"{record.text('JobId')}@{record.text('StartTime')}",
        job=record.text("JobId"),
        nodes=nodes(record.text("NodeList")),
        ending=how,
        exit_code=int(code) if code.isdigit() else 0,
        signal=int(signal) if signal.isdigit() else 0,
        reason=record.text("Reason"),
        failed_node=record.text("FailedNode") or None,
        name=record.text("JobName"),
        partition=record.text("Partition"),
        batch_host=record.text("BatchHost") or None,
        requeueable=record.text("Requeue") != "0",
        logs=logs,
        start=exact_time(record.text("StartTime")),
        end=exact_time(record.text("EndTime")),
    )


def _of_job(document: Document, record: Record, attempt: Attempt) -> Iterator[Finding]:
    line = record.line("JobState")
    for reason, rule in REASONS:
        if reason.search(attempt.reason):
            yield rule.of(document.seen(line, Source.SCHEDULER, node=None), job=attempt.job)
            return
    if rule_of_state := ENDINGS.get(attempt.ending):
        node = attempt.failed_node if attempt.ending is Ending.NODE_FAIL else None
        seen = document.seen(line, Source.SCHEDULER, node=node)
        yield rule_of_state.of(seen, job=attempt.job)


def _of_node(document: Document, record: Record) -> Iterator[Finding]:
    state = set(re.split(r"[+*]+", record.text("State").upper()))
    seen = document.seen(record.line("Reason", "State"), Source.SCHEDULER, node=record.text("NodeName"))
    told = next((rule for reason, rule in NODE_REASONS if reason.search(record.text("Reason"))), None)
    if state & _PLANNED:
        yield MAINTENANCE.of(seen)
    elif told:
        yield told.of(seen)
    elif state & {"DOWN", "NOT_RESPONDING", "FAIL"} or record.text("State").endswith("*"):
        yield NODE_DOWN.of(seen)


def _of_reservation(document: Document, record: Record) -> Iterator[Finding]:
    """Yield the planned window of each node; one that has not begun has taken nothing down."""
    if record.text("State") != "ACTIVE" or "MAINT" not in record.text("Flags").split(","):
        return
    for node in nodes(record.text("Nodes")):
        yield MAINTENANCE.of(document.seen(record.line("ReservationName"), Source.SCHEDULER, node=node))
