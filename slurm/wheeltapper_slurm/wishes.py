"""What the user has asked of us for one job: a word in the job's comment.

Slurm hands no hook a user's environment, so a variable of the user's cannot reach us; the comment can.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"(?<!\S)wheeltapper=(?P<wish>on|off)(?![^\s,;])", re.IGNORECASE)


def wants_requeue(comment: str) -> bool | None:
    """Return what *comment* (``sbatch --comment``) says of running the job again; None when it says nothing.

    Of several words the last one counts.
    """
    wishes = _WORD.findall(comment.replace(",", " ").replace(";", " "))
    return wishes[-1].lower() == "on" if wishes else None
