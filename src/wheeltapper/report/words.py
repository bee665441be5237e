"""Numbers as people read them."""

from __future__ import annotations

from datetime import datetime, timezone

from wheeltapper.statistics.exact import Interval


def hours(value: float | None) -> str:
    """Return *value* hours with the unit that fits."""
    if value is None:
        return "-"
    if value < 1:
        return f"{value * 60:.0f} min"
    if value < 72:
        return f"{value:.1f} h"
    if value < 24 * 730:
        return f"{value / 24:,.0f} days"
    return f"{value / 8766:,.0f} years"


def limits(found: Interval) -> str:
    """Return an interval of hours: the estimate with its 95 % limits."""
    if found.value is None:
        return f"more than {hours(found.low)}"
    return f"{hours(found.value)} ({hours(found.low)} to {hours(found.high)})"


def seconds(found: Interval) -> str:
    """Return a median of seconds with its quartiles."""
    if found.value is None:
        return "-"
    return f"{hours(found.value / 3600) if found.value >= 60 else f'{found.value:.1f} s'}"


def day(at: float) -> str:
    """Return the date of *at* (Unix seconds, UTC)."""
    return f"{datetime.fromtimestamp(at, tz=timezone.utc):%Y-%m-%d}"


def minute(at: float) -> str:
    """Return date and minute of *at* (Unix seconds, UTC)."""
    return f"{datetime.fromtimestamp(at, tz=timezone.utc):%Y-%m-%d %H:%M}"


def gpu_hours(value: float) -> str:
    """Return GPU hours, in thousands where they are many."""
    return f"{value:,.0f}" if value < 100_000 else f"{value / 1000:,.0f} k"
