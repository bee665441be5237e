"""The few plots of the page, as SVG text. Colours are classes: the page's style sheet decides, light or dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from wheeltapper.report import words

WIDTH = 960
LEFT = 150
RIGHT = 24
TOP = 10
ROW = 26

FAMILIES = ("hardware", "network", "resource", "software", "scheduler", "unknown")


TICKS = {
    0.01: "36 s",
    0.1: "6 min",
    1.0: "1 h",
    10.0: "10 h",
    48.0: "2 days",
    480.0: "20 days",
    4383.0: "half a year",
    43_830.0: "5 years",
    438_300.0: "50 years",
    4_383_000.0: "500 years",
}
"""Where an axis of hours has its lines, about a factor of ten apart."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A span of a timeline, in Unix seconds; ``kind`` names its colour."""

    start: float
    end: float
    kind: str
    title: str


@dataclass(frozen=True, slots=True)
class Range:
    """An estimate with its limits, on one line of a plot; without ``value`` only the lower limit is known."""

    name: str
    value: float | None
    low: float
    high: float | None
    note: str


@dataclass(frozen=True, slots=True)
class Stack:
    """One bar of hours: its parts are a colour, a name and a value each."""

    name: str
    parts: Sequence[tuple[str, str, float]]
    note: str


def _svg(height: float, parts: Sequence[str], title: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )


def _text(x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _rect(x: float, y: float, width: float, height: float, kind: str, title: str, style: str = "") -> str:  # noqa: PLR0913, PLR0917 - a rectangle has that many sides to it
    drawn = f' style="{style}"' if style else ""
    place = f'x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.5):.1f}" height="{height:.1f}"'
    return f'<rect {place} rx="2" class="{kind}"{drawn}><title>{escape(title)}</title></rect>'


def stacked_days(days: Sequence[tuple[float, Sequence[tuple[str, int]]]], title: str) -> str:
    """Return bars of counts by family, one for each day, or for each few days where they are many."""
    step = ceil(len(days) / 90) or 1
    groups = [days[begin : begin + step] for begin in range(0, len(days), step)]
    sums = [{name: sum(dict(counts).get(name, 0) for _, counts in group) for name in FAMILIES} for group in groups]
    most = _nice(max((sum(each.values()) for each in sums), default=0))
    height, floor_y, left = 250, 210, 56
    scale = (floor_y - TOP) / most
    parts = []
    for part in range(5):
        count = most * part / 4
        y = floor_y - count * scale
        parts += [_line(left, y, WIDTH - RIGHT, y, "grid"), _text(left - 8, y + 4, f"{count:g}", "axis", "end")]
    width = (WIDTH - RIGHT - left) / max(1, len(groups))
    for place, (group, counts) in enumerate(zip(groups, sums, strict=True)):
        y = float(floor_y)
        x = left + place * width
        when = words.day(group[0][0]) + (f" to {words.day(group[-1][0])}" if len(group) > 1 else "")
        for name in FAMILIES:
            if counts[name]:
                tall = counts[name] * scale
                y -= tall
                parts.append(
                    _rect(x + width * 0.1, y, width * 0.8, tall, f"f-{name}", f"{when}: {name} {counts[name]}", "rx:0")
                )
        if place % ceil(len(groups) / 8) == 0:
            parts.append(_text(x + width / 2, floor_y + 18, words.day(group[0][0])[5:], "axis", "middle"))
    x = float(left)
    for name in FAMILIES:
        if any(each[name] for each in sums):
            parts += [_rect(x, height - 14, 10, 10, f"f-{name}", name), _text(x + 15, height - 5, name, "axis")]
            x += 30 + 7.5 * len(name)
    return _svg(height, parts, title)


def _nice(value: float) -> float:
    """Return a round number of at least *value* that four divides well."""
    if value <= 4:
        return 4
    power = 10.0 ** floor(log10(value))
    return next(step * power for step in (1.2, 1.6, 2, 4, 6, 8, 10) if step * power >= value)


def ranges(rows: Sequence[Range], title: str) -> str:
    """Return estimates with their limits on a logarithmic axis of hours."""
    known = [each for row in rows for each in (row.value, row.low, row.high) if each]
    begin = max((each for each in TICKS if each <= min(known, default=1.0)), default=min(TICKS))
    end = min((each for each in TICKS if each >= max(known, default=1.0) and each > begin), default=max(TICKS))
    note_x = WIDTH - 250
    height = TOP + ROW * len(rows) + 30

    def x(value: float) -> float:
        inside = min(end, max(begin, value))
        return LEFT + log10(inside / begin) / log10(end / begin) * (note_x - 40 - LEFT)

    parts = []
    for hours in (each for each in TICKS if begin <= each <= end):
        parts.append(_line(x(hours), TOP, x(hours), height - 26, "grid"))
        parts.append(_text(x(hours), height - 8, TICKS[hours], "axis", "middle"))
    for place, row in enumerate(rows):
        y = TOP + ROW * (place + 0.5)
        parts.append(_text(LEFT - 12, y + 4, row.name, "name", "end"))
        high = row.high if row.high is not None else end
        parts.append(_line(x(row.low), y, x(high), y, "limits" if row.high is not None else "limits open"))
        if row.value is not None:
            parts.append(f'<circle cx="{x(row.value):.1f}" cy="{y:.1f}" r="5" class="dot"/>')
        parts.append(_text(note_x, y + 4, row.note, "axis"))
    return _svg(height, parts, title)


def ratios(rows: Sequence[Range], mark: float, title: str, left: float = LEFT) -> str:
    """Return ratios up to 1 with their limits on a straight axis; *mark* is a ratio to compare with."""
    lowest = min([mark, *(row.low for row in rows)])
    step = next((each for each in (0.002, 0.005, 0.01, 0.02, 0.05, 0.1) if 1 - 5 * each <= lowest), 0.2)
    begin = 1 - 5 * step
    note_x = WIDTH - 170
    height = TOP + ROW * len(rows) + 30

    def x(value: float) -> float:
        return left + (max(begin, value) - begin) / (1 - begin) * (note_x - 40 - left)

    parts = []
    for tick in (begin + step * number for number in range(6)):
        parts.append(_line(x(tick), TOP, x(tick), height - 26, "grid"))
        parts.append(_text(x(tick), height - 8, f"{tick:.3f}", "axis", "middle"))
    parts.append(_line(x(mark), TOP, x(mark), height - 26, "limits open"))
    for place, row in enumerate(rows):
        y = TOP + ROW * (place + 0.5)
        parts.append(_text(left - 12, y + 4, row.name, "name", "end"))
        parts.append(_line(x(row.low), y, x(row.high or 1.0), y, "limits"))
        if row.value is not None:
            parts.append(f'<circle cx="{x(row.value):.1f}" cy="{y:.1f}" r="5" class="dot"/>')
        parts.append(_text(note_x, y + 4, row.note, "axis"))
    return _svg(height, parts, title)


def stacks(rows: Sequence[Stack], title: str, left: float = LEFT) -> str:
    """Return a bar for each row, of parts side by side, with the names of the parts below."""
    most = max((sum(value for _, _, value in row.parts) for row in rows), default=0.0) or 1.0
    note_x = WIDTH - 110
    height = TOP + ROW * len(rows) + 34
    parts = []
    for place, row in enumerate(rows):
        y = TOP + ROW * place
        parts.append(_text(left - 12, y + ROW / 2 + 4, row.name, "name", "end"))
        at = left
        for kind, name, value in row.parts:
            width = value / most * (note_x - 20 - left)
            if width >= 0.5:
                parts.append(_rect(at, y + 5, width, ROW - 10, f"f-{kind}", f"{row.name}: {name}, {value:,.1f} h"))
            at += width
        parts.append(_text(at + 8, y + ROW / 2 + 4, row.note, "axis"))
    at = left
    for kind, name, _ in rows[0].parts if rows else ():
        parts.append(_rect(at, height - 20, 10, 10, f"f-{kind}", name))
        parts.append(_text(at + 16, height - 11, name, "axis"))
        at += 30 + 7 * len(name)
    return _svg(height, parts, title)


def heat_map(rows: Sequence[tuple[str, Sequence[int]]], since: float, column_days: float, title: str) -> str:
    """Return a map of counts: a line for each node, a column for each span of time, darker where there were more."""
    columns = max((len(counts) for _, counts in rows), default=1)
    most = max((max(counts) for _, counts in rows), default=1) or 1
    width = (WIDTH - RIGHT - LEFT) / columns
    tall = 20
    height = TOP + tall * len(rows) + 26
    parts = []
    for place, (node, counts) in enumerate(rows):
        y = TOP + tall * place
        parts.append(_text(LEFT - 12, y + 14, _short(node), "name", "end"))
        for column, count in enumerate(counts):
            when = words.day(since + column * column_days * 86_400)
            kind = "cell hot" if count else "cell"
            style = f"fill-opacity:{0.25 + 0.75 * count / most:.2f}" if count else ""
            said = f"{node}, from {when}: suspected {count} times"
            parts.append(_rect(LEFT + column * width + 1, y + 1, width - 2, tall - 2, kind, said, style))
    for column in range(0, columns, ceil(columns / 8)):
        when = words.day(since + column * column_days * 86_400)[5:]
        parts.append(_text(LEFT + (column + 0.5) * width, height - 8, when, "axis", "middle"))
    return _svg(height, parts, title)


def _short(name: str) -> str:
    return name if len(name) <= 18 else f"{name[:17]}…"


def timeline(bars: Sequence[Bar], title: str) -> str:
    """Return attempts one below the other on one axis of time."""
    begin, end = min(bar.start for bar in bars), max(bar.end for bar in bars)
    span = max(1.0, end - begin)
    height = TOP + ROW * len(bars) + 30

    def x(at: float) -> float:
        return LEFT + (at - begin) / span * (WIDTH - RIGHT - 60 - LEFT)

    parts = []
    for part in range(5):
        at = begin + span * part / 4
        parts.append(_line(x(at), TOP, x(at), height - 26, "grid"))
        parts.append(_text(x(at), height - 8, words.minute(at)[5:], "axis", "middle"))
    for place, bar in enumerate(bars):
        y = TOP + ROW * place
        parts.append(_text(LEFT - 12, y + 17, f"attempt {place + 1}", "name", "end"))
        parts.append(_rect(x(bar.start), y + 4, x(bar.end) - x(bar.start), ROW - 8, f"f-{bar.kind}", bar.title))
    return _svg(height, parts, title)
