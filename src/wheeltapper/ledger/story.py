"""One interruption as a person reads it: the answer first, then what it rests on, then what was done."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timezone

from wheeltapper.diagnosis.model import Diagnosis
from wheeltapper.evidence import Finding
from wheeltapper.ledger.model import Act, Interruption, Outcome

NODES_SHOWN = 8
"""Of a job on a thousand nodes nobody reads all names; the guilty one stands in the evidence."""

_WORDS = {
    Outcome.PLANNED: "to do",
    Outcome.DONE: "done",
    Outcome.FAILED: "failed",
    Outcome.OBSERVED: "not done, the mode only observes",
    Outcome.RELEASED: "released",
    Outcome.UNDONE: "undone by a person",
}


def story(number: int, interruption: Interruption, acts: Iterable[Act]) -> str:
    """Return the text of one interruption, the attempt's *number* counting from 1."""
    attempt, diagnosis, decision = interruption.attempt, interruption.diagnosis, interruption.decision
    name = " ".join(part for part in (diagnosis.label, diagnosis.detail) if part)
    lines = [
        f"attempt {number} of job {attempt.job} on {_nodes(attempt.nodes)}: {name}",
        f"  {diagnosis.sentence}",
        f"  ended       {_time(attempt.end)}, {attempt.ending.value}, exit code {attempt.exit_code}:{attempt.signal}",
        f"  confidence  {diagnosis.confidence:.2f}{', confirmed by the node itself' if diagnosis.confirmed else ''}",
        *_evidence(diagnosis),
        *([f"  amended     {_time(interruption.amended_at)}, a report came late"] if interruption.amended_at else []),
        *(f"  node        {action.node}: {action.reason}" for action in decision.quarantine),
        f"  decision    {decision.job.reason}",
        *(f"  {act.kind:<11} {_outcome(act)}" for act in acts),
    ]
    return "\n".join(lines)


def _nodes(names: tuple[str, ...]) -> str:
    shown = ",".join(names[:NODES_SHOWN])
    return shown if len(names) <= NODES_SHOWN else f"{shown} and {len(names) - NODES_SHOWN} more"


def _evidence(diagnosis: Diagnosis) -> Iterator[str]:
    for finding in diagnosis.chain:
        yield f"  {finding.role.value:<11} {_step(finding)}"
        yield f"              {' '.join(finding.evidence.text.split())}"
    for other in diagnosis.rejected:
        where = f" ({other.where})" if other.where else ""
        yield f"  not         {other.label}{where}: {other.reason}"


def _step(finding: Finding) -> str:
    seen = finding.evidence
    name = " ".join(part for part in (finding.label, finding.detail) if part)
    gpu = f" GPU {seen.gpu}" if seen.gpu else ""
    offset = f", byte {seen.offset}" if seen.offset is not None else ""
    at = f" at {_time(seen.at)}" if seen.at is not None else ""
    return f"{name}, {seen.where}{offset}{gpu}{at} [{finding.signature}]"


def _outcome(act: Act) -> str:
    note = act.note or act.value
    return f"{_WORDS[act.outcome]}{': ' + note if note and act.outcome is not Outcome.OBSERVED else ''}"


def _time(seconds: float | None) -> str:
    if seconds is None:
        return "at an unknown time"
    return f"{datetime.fromtimestamp(seconds, tz=timezone.utc):%Y-%m-%dT%H:%M:%SZ}"
