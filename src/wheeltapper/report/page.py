"""The survey as one HTML page."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from wheeltapper.ledger.survey import JobStory, Reliability, Survey
from wheeltapper.report import svg, words
from wheeltapper.report.document import document, section, table


def page(of: Survey) -> str:
    """Return the whole page."""
    sums = of.totals
    title = f"{of.cluster}: what stopped jobs"
    span = f"{words.day(sums.since)} to {words.day(sums.until)} (UTC)"
    body = [
        _tiles(of),
        section("What it was", _kinds(of), "Lost is what ran since the last checkpoint."),
        section("Day by day", svg.stacked_days(of.days, "Interruptions by day and family")),
        _reliability(of),
        _nodes(of),
        section("What the record suggests", _list(of.lessons)) if of.lessons else "",
        _job(of.job) if of.job is not None else "",
        _quarantines(of),
    ]
    return document(title, span, body)


def _tiles(of: Survey) -> str:
    sums = of.totals
    ran = sum(each.gpu_hours for each in sums.exposures)
    lost = sum(kind.lost_gpu_hours for kind in sums.kinds)
    faults = sum(each.faults for each in sums.exposures)
    tiles = [
        ("interruptions", f"{sums.interruptions:,}", f"{faults:,} by machines, network or nothing known"),
        (
            "GPU hours lost",
            words.gpu_hours(lost),
            f"of {words.gpu_hours(ran)}" + (f", {lost / ran:.1%}" if ran else ""),
        ),
        ("nodes taken out", str(sum(each.outcome.value == "done" for each in sums.quarantines)), "by evidence"),
        ("to decide", words.seconds(of.decide_s), "from an end, in the median"),
        ("to run again", words.seconds(of.recover_s), "from the decision, in the median"),
    ]
    cells = "".join(
        f'<div class="tile"><p class="label">{escape(name)}</p><p class="value">{escape(value)}</p>'
        f'<p class="note">{escape(note)}</p></div>'
        for name, value, note in tiles
    )
    return f'<div class="tiles">{cells}</div>'


def _kinds(of: Survey) -> str:
    if not of.totals.kinds:
        return "<p>Nothing was interrupted.</p>"
    rows = [
        (
            f'<span class="chip f-{kind.label.partition("/")[0]}"></span>{escape(kind.label)}',
            f"{kind.count:,}",
            f'<span class="bar"><span style="width:{100 * kind.share:.1f}%"></span></span>{kind.share:.1%}',
            words.gpu_hours(kind.gpu_hours),
            words.gpu_hours(kind.lost_gpu_hours),
            f"{kind.requeued:,}",
            escape(", ".join(kind.nodes)),
        )
        for kind in of.totals.kinds
    ]
    return table(("kind", "count", "share", "GPU hours", "lost", "run again", "suspected most"), rows)


def _reliability(of: Survey) -> str:
    groups = (("Jobs, by size", of.sizes), ("Nodes, by partition", of.partitions), ("Machines", of.machines))
    plots = [
        f"<h3>{escape(title)}</h3>{svg.ranges([_range(row) for row in rows], f'MTTF: {title}')}"
        for title, rows in groups
        if rows
    ]
    if not plots:
        return ""
    note = "Mean time to failure with its 95 % limits. An open line: nothing failed, and only a lower limit is known."
    return section("How long it holds", "".join(plots), note)


def _range(row: Reliability) -> svg.Range:
    note = f"{words.hours(row.mttf.value) if row.mttf.value is not None else '-'}, {row.failures:,} in"
    return svg.Range(row.name, row.mttf.value, row.mttf.low, row.mttf.high, f"{note} {words.hours(row.hours)}")


def _nodes(of: Survey) -> str:
    if not of.nodes:
        return ""
    note = (
        f"Each column is {of.column_days:.0f} days; darker where a node was suspected of a hardware fault more often."
    )
    rows = [(each.node, each.counts) for each in of.nodes]
    content = svg.heat_map(rows, of.totals.since, of.column_days, "Suspected nodes over time")
    if of.lemons:
        offenders = table(
            ("repeat offender", "faults", "weight of late"),
            [(escape(each.node), str(each.faults), f"{each.weight:.1f}") for each in of.lemons],
        )
        content += f"<h3>Repeat offenders</h3>{offenders}"
    return section("Which nodes", content, note)


def _list(sentences: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(each)}.</li>' for each in sentences)}</ul>"


def _job(job: JobStory) -> str:
    bars = [
        svg.Bar(
            each.start,
            each.end,
            each.label.partition("/")[0] or "done",
            f"{each.label or 'completed'}: {each.sentence}",
        )
        for each in job.attempts
    ]
    spent = job.wall_time
    parts = [("kept", spent.productive), ("lost", spent.lost), ("until the decision", spent.undecided)]
    parts.append(("waiting", spent.waiting))
    told = ", ".join(f"{name} {words.hours(seconds / 3600)}" for name, seconds in parts)
    ettr = f" ETTR {spent.ettr:.1%}." if spent.ettr is not None else ""
    rows = [
        (
            str(number),
            words.minute(each.start),
            words.minute(each.end),
            escape(each.label or "completed"),
            escape(each.sentence),
        )
        for number, each in enumerate(job.attempts, start=1)
    ]
    content = svg.timeline(bars, f"Attempts of job {job.job}")
    return section(
        f"Job {job.job}",
        content + table(("attempt", "began", "ended", "end", "why"), rows),
        f"{told.capitalize()}.{ettr}",
    )


def _quarantines(of: Survey) -> str:
    if not of.totals.quarantines:
        return ""
    rows = [
        (
            words.minute(each.at),
            escape(each.node),
            escape(f"{each.label} {each.detail}".strip()),
            escape(each.outcome.value),
            escape(each.note or each.reason),
        )
        for each in of.totals.quarantines
    ]
    return section("Nodes taken out", table(("when", "node", "for", "outcome", "reason"), rows))
