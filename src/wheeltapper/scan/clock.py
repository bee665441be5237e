"""The time of a line, in the forms in which programs of a training job write it.

A time without a date, or with a date without a year (glog before 0.5, syslog), says when within an unknown year: it
counts as unknown, because a wrong year would set evidence outside every window. Only glog's is read all the same where
the text above it tells the year, because PyTorch stamps so what ends a run whose other lines have whole dates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone, tzinfo

from wheeltapper.scan.blocks import BEFORE, Piece

TIME_WITHIN = 300
"""Bytes from the start of a line in which its own time is looked for: Slurm writes it after a host and a job."""

MONTHS = "JanFebMarAprMayJunJulAugSepOctNovDec"
"""As programs write them in every locale, which strptime would not read in every locale."""

_TICK = re.compile(r":[0-5]\d:[0-6]\d")
"""Minutes and seconds: quick to find, and every form below holds them."""

AROUND_BEFORE, AROUND_AFTER = 24, 26
"""Characters around a tick that hold the longest form."""

_YEAR = re.compile(r"(?:19|20)\d\d")

_TIME_OF_DAY = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
_REST = r"(?:[.,](?P<fraction>\d{1,9}))?(?:\s?(?P<offset>Z|[+-]\d\d:?\d\d)(?![\d-]))?"
_ZONE = r"(?: (?P<offset>UTC|GMT))?"
_FORMS = tuple(
    re.compile(form)
    for form in (
        # 2025-11-29T12:01:03.5+01:00, 2025/11/29 12:01:03
        rf"(?<!\d)(?P<year>\d{{4}})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T _]{_TIME_OF_DAY}{_REST}",
        # 20251129 12:01:03.123456, as glog writes it since 0.5
        rf"(?<!\d)(?P<year>\d{{4}})(?P<month>\d\d)(?P<day>\d\d)[T _-]{_TIME_OF_DAY}{_REST}",
        # 11/29/2025 12:01:03, as Hugging Face's and Lightning's examples set it
        rf"(?<!\d)(?P<month>\d\d)/(?P<day>\d\d)/(?P<year>\d{{4}}),? {_TIME_OF_DAY}{_REST}",
        # 29/Nov/2025:12:01:03 +0000, of web servers
        rf"(?<!\d)(?P<day>\d\d)/(?P<name>[A-Z][a-z]{{2}})/(?P<year>\d{{4}})[: ]{_TIME_OF_DAY}{_REST}",
        # Sat Nov 29 12:01:03 UTC 2025
        rf"\b(?P<name>[A-Z][a-z]{{2}}) +(?P<day>\d{{1,2}}) {_TIME_OF_DAY}{_ZONE} (?P<fraction>)(?P<year>\d{{4}})\b",
    )
)

_GLOG = re.compile(
    rf"(?:^|(?<=[\s\[]))[IWEF](?P<month>\d{{1,2}})(?P<day>\d\d) {_TIME_OF_DAY}(?:\.(?P<fraction>\d{{1,9}}))?[ \]]"
)
"""``E0611 03:41:18.114207 1234 file.cc:1]`` of glog, ``E611 03:41:18.114207733 File.cpp:1]`` of PyTorch itself."""


def time_of(text: str, zone: tzinfo | None) -> float | None:
    """Return the first time in *text* as Unix seconds; without an offset it is of *zone*, None being this machine's."""
    return next(_times((tick.start() for tick in _TICK.finditer(text)), text, zone), None)


def last_time_of(text: str, zone: tzinfo | None) -> float | None:
    """Return the last time in *text*, for a line that has none of its own."""
    ticks = [tick.start() for tick in _TICK.finditer(text)]
    return next(_times(reversed(ticks), text, zone), None)


class Clock:
    """Tells the times of pieces of one log; a piece without a time has that of the text just before it."""

    def __init__(self, zone: tzinfo | None) -> None:
        """Times without an offset are of *zone*."""
        self._zone = zone
        self._start = -1
        self._at: float | None = None
        self._told = -1  # where the text began in which the time was found
        self._mute_to = -1  # where the last piece ended, when all of it was looked at and holds no whole time
        self._quiet = -BEFORE - 1  # where the last piece began that was asked for the quiet before it

    def at(self, piece: Piece) -> float | None:
        """Return the time of *piece* as Unix seconds; None when neither it nor the text before it tells."""
        if piece.start == self._start:
            return self._at
        text = piece.raw[:TIME_WITHIN].decode("latin-1")
        own = time_of(text, self._zone)
        if own is None:
            above = self._above(piece)
            self._mute_to = piece.start + len(piece.raw) if len(piece.raw) <= TIME_WITHIN else -1
            own = _in_year_of(above, text, self._zone)
            if own is None:
                self._start, self._at = piece.start, above
                return above
        self._told = piece.start
        self._start, self._at = piece.start, own
        return own

    def quiet_before(self, piece: Piece) -> float | None:
        """Return how many seconds before *piece* the text above it was written; None where a time is unknown.

        Of many that follow each other the first alone is told: above the others stands the one before.
        """
        at, follows = self.at(piece), piece.start - self._quiet <= BEFORE
        if follows:
            self._quiet = piece.start
        if follows or at is None:
            return None
        before = last_time_of(piece.before.decode("latin-1"), self._zone)
        if before is None:
            return None
        self._quiet = piece.start
        return max(0.0, at - before)

    def _above(self, piece: Piece) -> float | None:
        # In a burst the text before a line was searched for the line before it: only what is new needs a look.
        new = piece.start - self._start
        follows = self._start >= 0 and 0 < new <= len(piece.before)
        at = None
        if not follows or piece.start != self._mute_to + 1:
            at = last_time_of((piece.before[-new:] if follows else piece.before).decode("latin-1"), self._zone)
        if at is not None:
            self._told = piece.start
            return at
        return self._at if follows and piece.start - self._told <= BEFORE else None


def _in_year_of(known: float | None, text: str, zone: tzinfo | None) -> float | None:
    """Return the time that glog wrote into *text* without a year, in the year that brings it nearest to *known*."""
    found = _GLOG.search(text) if known is not None else None
    if known is None or not found:
        return None
    year = datetime.fromtimestamp(known, zone or timezone.utc).year
    told = {**found.groupdict(), "offset": None}
    moments = (_seconds({**told, "year": str(each)}, zone) for each in (year - 1, year, year + 1))
    return min((each for each in moments if each is not None), key=lambda each: abs(each - known), default=None)


def _times(ticks: Iterator[int], text: str, zone: tzinfo | None) -> Iterator[float]:
    for tick in ticks:
        around = text[max(0, tick - AROUND_BEFORE) : tick + AROUND_AFTER]
        for form in _FORMS if _YEAR.search(around) else ():
            found = form.search(around)
            if found and (seconds := _seconds(found.groupdict(), zone)) is not None:
                yield seconds


def _seconds(told: dict[str, str | None], zone: tzinfo | None) -> float | None:
    name = told.get("name")
    try:
        month = MONTHS.index(name) // 3 + 1 if name else int(told["month"] or 0)
        day, year = int(told["day"] or 0), int(told["year"] or 0)
        hour, minute, second = (int(told[part] or 0) for part in ("hour", "minute", "second"))
        where = _zone(told["offset"]) if told["offset"] else zone
        moment = datetime(year, month, day, hour, minute, second, tzinfo=where)
        return moment.timestamp() + float(f"0.{told['fraction'] or 0}")
    except (ValueError, OverflowError, OSError):
        return None


def _zone(offset: str) -> tzinfo:
    if offset in {"Z", "UTC", "GMT"}:
        return timezone.utc
    sign = -1 if offset[0] == "-" else 1
    return timezone(sign * timedelta(hours=int(offset[1:3]) % 24, minutes=int(offset[-2:]) % 60))
