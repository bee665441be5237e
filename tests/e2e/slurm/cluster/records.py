"""What ``scontrol show`` prints, as dictionaries."""

from __future__ import annotations

import re

_PAIR = re.compile(r"(?:^| )([A-Za-z][A-Za-z0-9:/_]*)=")

_LAST_OF_LINE = frozenset({"JobName", "Reason"})
"""Keys with free text that come after other keys on their line and end it."""

_WHOLE_LINE = frozenset(
    {
        "Comment",
        "AdminComment",
        "SystemComment",
        "Extra",
        "Command",
        "SubmitLine",
        "WorkDir",
        "StdErr",
        "StdIn",
        "StdOut",
    }
    | {"OS"}
)
"""Keys whose value is free text to the end of a line of their own."""


def jobs(text: str) -> list[dict[str, str]]:
    """One dictionary for each record of ``scontrol show job``.

    The many-line form is read, not the one-line form: there a job's name or comment ends with its line, so that
    no text a user chooses can look like another field.
    """
    return [_fields(block) for block in text.split("\n\n") if "JobId=" in block]


def node(text: str) -> dict[str, str]:
    """The record of ``scontrol show node NAME``."""
    return _fields(text)


def node_state(text: str) -> tuple[frozenset[str], str]:
    """A node's states (``IDLE``, ``DRAIN`` …) and its reason without the bracket that says who set it and when."""
    record = node(text)
    states = frozenset(state.rstrip("*") for state in record["State"].split("+"))
    return states, re.sub(r" \[[^\[\]]*@[^\[\]]*\]$", "", record.get("Reason", ""))


def _fields(block: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    for line in block.splitlines():
        fields |= _line(line.strip())
    return fields


def _line(line: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    starts = list(_PAIR.finditer(line))
    for place, found in enumerate(starts):
        key = found[1]
        # "Reason" is free text on a node, where it starts its line, and one word on a job, where it follows JobState.
        if key in _WHOLE_LINE or (key in _LAST_OF_LINE and (key == "JobName" or place == 0)):
            fields[key] = line[found.end() :]
            break
        end = starts[place + 1].start() if place + 1 < len(starts) else len(line)
        fields[key] = line[found.end() : end]
    return fields
