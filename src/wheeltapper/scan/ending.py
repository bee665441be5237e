"""How a log ends: words that sound like an end count only where the log does not go on after them."""

from __future__ import annotations

import re
from itertools import pairwise

from wheeltapper.scan.blocks import Readable

NEAR = 8192
"""Bytes before the end of a log in which its last words stand: the tracebacks and teardown of a node's ranks."""

_GOES_ON = re.compile(
    rb"(?i)\b(?:step|iter|iteration|epoch|loss|tokens|batch)\b(?!\W{0,4}\d+\.\d+ on )\W{0,4}\d"
    rb"|\d+(?:\.\d+)? ?(?:it/s|s/it)\b|\d%\|"
    rb"|(?<!abort )(?<!destroy )\b(?:completed?|finished)\b(?! with)"
    rb"|\b(?:success\w*|succeeded|reconnected|recovered|resum(?:ed|ing)|retrying|falling back|all done|skipp(?:ed|ing)"
    rb"|saved (?:the |a )?(?:model|checkpoint|state|weights))\b"
)
"""Progress, or words that something went well after all; Slurm's steps and NCCL's ends of communicators are none."""


STEPS_AFTER = 3
"""Steps further after which a run has gone on: ranks that do not know yet that another died take at most one."""

_STEP = re.compile(
    rb"(?i)(?<![a-z])(?:global[_ ]?)?(?:step|iteration|iter)[\"']?\s{0,3}[:=#]?\s{0,8}(\d{1,12})(?![\d.]\d)(?=.*loss)"
    rb"|loss.{1,160}[\"']epoch[\"']: ?(\d+\.\d+)"
    rb"|(?<![a-z])epoch[ :=]{1,3}(\d{1,6})\b(?=.*loss)"
    rb"|(?<![a-z])trial (\d{1,6}) finished with value"
)
"""A step, an iteration or an epoch, with the loss in the same line."""

_UNCAUGHT = re.compile(
    rb"Traceback \(most recent call last\):[^\n]*\n[^\n]{0,120}File \"[^<\"\n][^\"\n]{0,400}\", line \d+, in"
    rb" (?:<module>|_run_module_as_main\b|_run_code\b)"
)
"""A traceback from the very start of a program in a file: nothing has caught it, and what Python still had to write
follows it. What a shell tries by `python -c`, and a process that another one spawned, are "<string>"."""


class Ending:
    """A stream that remembers its last bytes while it is read."""

    def __init__(self, stream: Readable, offset: int) -> None:
        """Read from *stream*, whose first byte is that at *offset* of the log."""
        self._stream = stream
        self._end = offset
        self._tail = b""

    def read(self, size: int, /) -> bytes:
        """Return up to *size* bytes, none at the end."""
        block = self._stream.read(size)
        self._end += len(block)
        self._tail = block[-NEAR:] if len(block) >= NEAR else (self._tail + block)[-NEAR:]
        return block

    def goes_on(self, offset: int) -> bool:
        """True when the run took steps after the byte at *offset*, to the end of the log; to be asked after all.

        No job takes further steps without the rank that died, so what stands before them was survived. The bars of
        loaders and evaluations are no steps: other ranks go on with theirs. Nor are those behind an exception that
        nothing caught: Python empties its buffer (io.DEFAULT_BUFFER_SIZE, as long as the tail) when it ends.
        """
        if _UNCAUGHT.search(self._tail):
            return False
        start = max(0, offset - (self._end - len(self._tail)))
        steps = [float(found.group(found.lastindex or 0)) for found in _STEP.finditer(self._tail, start)]
        rising = [later for earlier, later in pairwise(steps) if later > earlier]
        return len(rising) >= STEPS_AFTER and rising == sorted(rising)

    def is_last_word(self, offset: int, length: int) -> bool:
        """True when nothing but an end follows what stands at *offset*; to be asked after all was read."""
        start = offset + length - (self._end - len(self._tail))
        return start >= 0 and not _GOES_ON.search(self._tail, start)
