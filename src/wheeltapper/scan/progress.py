"""How far a job came: the last step that its log tells of."""

from __future__ import annotations

import re
from pathlib import Path

TAIL_BYTES = 1 << 20
"""Searched from the end: a job that has printed a megabyte since its last step prints none."""

# "step 12", "global_step=12", '"step": 12', "iteration 12/500"; and a progress bar's "| 12/500 [".
_BAR = re.compile(rb"\|\s{0,8}(\d{1,12})/\d{1,12} \[")
_WORD = re.compile(
    rb"(?<![a-z])(?:global[_ ]?)?(?:step|iteration|iter)[\"']?\s{0,3}[:=#]?\s{0,8}(\d{1,12})(?![\d.]\d)", re.IGNORECASE
)


def last_step(text: bytes) -> int | None:
    """Return the last step that *text* tells of, in words, as JSON or as a progress bar; None when it tells of none."""
    found = [match for pattern in (_WORD, _BAR) for match in pattern.finditer(text)]
    return int(max(found, key=lambda match: match.start()).group(1)) if found else None


def step_in(path: Path) -> int | None:
    """Return the last step that the end of the file at *path* tells of.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open("rb") as stream:
        size = stream.seek(0, 2)
        stream.seek(max(0, size - TAIL_BYTES))
        return last_step(stream.read(TAIL_BYTES))
