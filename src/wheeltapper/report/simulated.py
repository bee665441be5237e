"""A replay as one HTML page: where the time went under each strategy, and how sure that is."""

from __future__ import annotations

from html import escape

from wheeltapper.report import svg
from wheeltapper.report.document import document, section, table
from wheeltapper.simulate.compare import Comparison, Line

NAMES = 230
"""Width of the strategies' names."""


def page(of: Comparison, title: str, notes: list[str]) -> str:
    """Return the whole page; *notes* are the sentences that stand below the table in the terminal too."""
    body = []
    for write_s in of.closed_form:
        lines = [line for line in of.lines if line.write_s == write_s]
        note = f"A checkpoint takes {write_s:g} s. The rest of the time the job made progress."
        body.append(section("Hours without progress", _hours(lines), note))
        note = "The mean over the seeds, with the lowest and the highest; the dashed line is the closed form."
        body.append(section("Effective training time ratio", _ratios(lines, of.closed_form[write_s]), note))
    body += [section("In numbers", _numbers(of)), section("What else it says", _list(notes))]
    return document("What the policy would have saved", title, body)


def _hours(lines: list[Line]) -> str:
    rows = [
        svg.Stack(
            line.strategy,
            (
                ("hardware", "lost work", line.lost_hours),
                ("resource", "unseen", line.noticing_hours),
                ("network", "waiting and starting", line.waiting_hours),
                ("scheduler", "writing checkpoints", line.writing_hours),
            ),
            f"{line.idle_hours:,.0f} h",
        )
        for line in lines
    ]
    return svg.stacks(rows, "Hours without progress by strategy", NAMES)


def _ratios(lines: list[Line], closed_form: float) -> str:
    rows = [
        svg.Range(
            each.strategy,
            each.ettr,
            each.ettr_low,
            each.ettr_high,
            f"{each.ettr:.4f}, {each.interruptions:.0f} stops",
        )
        for each in lines
    ]
    return svg.ratios(rows, closed_form, "Effective training time ratio by strategy", NAMES)


def _numbers(of: Comparison) -> str:
    heads = ("ETTR", "lowest", "highest", "stops", "hours lost", "unseen", "waiting", "writing", "asks", "strategy")
    rows = [
        (
            *(f"{value:.4f}" for value in (line.ettr, line.ettr_low, line.ettr_high)),
            f"{line.interruptions:.0f}",
            *(
                f"{value:,.0f}"
                for value in (line.lost_hours, line.noticing_hours, line.waiting_hours, line.writing_hours)
            ),
            f"{line.stopped_for_a_person:.0f}",
            f"{escape(line.strategy)}, {line.write_s:g} s a checkpoint",
        )
        for line in of.lines
    ]
    return table(heads, rows)


def _list(sentences: list[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(each)}</li>' for each in sentences)}</ul>"
