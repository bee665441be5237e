"""The survey as Markdown that can be mailed, and its kinds as CSV for a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence

from wheeltapper.ledger.survey import Reliability, Survey
from wheeltapper.report import words


def markdown(of: Survey) -> str:
    """Return the summary."""
    return "\n".join(_lines(of)) + "\n"


def _lines(of: Survey) -> Iterator[str]:
    sums = of.totals
    lost = sum(kind.lost_gpu_hours for kind in sums.kinds)
    yield f"# {of.cluster}: what stopped jobs, {words.day(sums.since)} to {words.day(sums.until)}"
    yield ""
    yield f"{sums.interruptions:,} interruptions; {words.gpu_hours(lost)} GPU hours of work were lost."
    yield ""
    heads = ("kind", "count", "share", "GPU hours", "lost", "run again", "suspected most")
    yield from _table(
        heads,
        [
            (
                kind.label,
                f"{kind.count:,}",
                f"{kind.share:.1%}",
                words.gpu_hours(kind.gpu_hours),
                words.gpu_hours(kind.lost_gpu_hours),
                f"{kind.requeued:,}",
                ", ".join(kind.nodes),
            )
            for kind in sums.kinds
        ],
    )
    for title, rows in (("Jobs by size", of.sizes), ("Nodes by partition", of.partitions), ("Machines", of.machines)):
        if rows:
            yield from ("", f"## MTTF: {title}", "")
            yield from _table(("", "failures", "watched", "MTTF (95 %)"), [_rate(row) for row in rows])
    if of.lemons:
        yield from ("", "## Repeat offenders", "")
        yield from (f"- {each.sentence}." for each in of.lemons)
    if of.lessons:
        yield from ("", "## What the record suggests", "")
        yield from (f"- {each}." for each in of.lessons)
    if sums.quarantines:
        yield from ("", "## Nodes taken out", "")
        for each in sums.quarantines:
            outcome = f"{each.outcome.value}: {each.note}" if each.note else each.outcome.value
            yield f"- {words.minute(each.at)} {each.node}: {each.reason} ({outcome})"


def _rate(row: Reliability) -> tuple[str, ...]:
    return row.name, f"{row.failures:,}", words.hours(row.hours), words.limits(row.mttf)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        cells = (cell.replace("|", r"\|") for cell in row)
        yield f"| {' | '.join(cells)} |"


def kinds_csv(of: Survey) -> str:
    """Return the kinds, one a line, numbers unrounded."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("label", "count", "share", "requeued", "gpu_hours", "lost_gpu_hours", "suspected_most"))
    for kind in of.totals.kinds:
        nodes = " ".join(kind.nodes)
        writer.writerow((kind.label, kind.count, kind.share, kind.requeued, kind.gpu_hours, kind.lost_gpu_hours, nodes))
    return out.getvalue()
