"""What ``sacct``, ``squeue`` and ``scontrol show`` print with ``--json``: the same records under other keys.

The shape differs between releases: a number may stand alone or under ``number`` beside ``set``, a state may be a word
or a list of words. What is not there, or of another shape, is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from wheeltapper.catalogue import Catalogue
from wheeltapper.inputs.judging.slurm_records import Record, of_records
from wheeltapper.inputs.model import Document, Line, Reader, Reading

if TYPE_CHECKING:
    from wheeltapper.inputs.tree import Item

_OURS = re.compile(r"""^\s*\{(?s:.*?)"(?:jobs|nodes)"\s*:\s*\[\s*\{""")
_OF_SLURM = re.compile(r'"(?:account|association|architecture|job_id|job_state|slurmd_version)"\s*:')

_TEXTS = {
    "JobId": ("job_id",),
    "JobName": ("name",),
    "Reason": ("state_reason",),
    "FailedNode": ("failed_node",),
    "NodeList": ("nodes",),
    "Partition": ("partition",),
    "BatchHost": ("batch_host",),
    "StdOut": ("standard_output",),
    "StdErr": ("standard_error",),
}
"""Keys of ``scontrol show job``, and where its JSON holds the same."""

_STATES = (("job_state",), ("state", "current"))
_TIMES = {"StartTime": (("start_time",), ("time", "start")), "EndTime": (("end_time",), ("time", "end"))}
_NO_REASON = frozenset({"None", ""})


def _recognises(document: Document) -> bool:
    return bool(_OURS.match(document.head) and _OF_SLURM.search(document.head))


def _read(document: Document, _catalogue: Catalogue) -> Reading:
    from wheeltapper.inputs.tree import items  # noqa: PLC0415 - PyYAML costs 20 ms, and few cases hold such records

    records: list[Record] = []
    for item in items(document):
        records += [_job(each) for each in item.each("jobs") if each.text("job_id")]
        records += [_node(each) for each in item.each("nodes") if each.text("name")]
    return of_records(document, [each for each in records if each.text("JobState") or each.text("State")])


def _job(item: Item) -> Record:
    values = {key: (item.text(*path), item.line) for key, path in _TEXTS.items() if item.get(*path)}
    for path in _STATES:
        values.update(("JobState", (word, line)) for word, line in list(_words(item, *path))[:1])
    for key, paths in _TIMES.items():
        values.update((key, (_moment(number), item.line)) for path in paths if (number := _number(item, *path)))
    reason = values.get("Reason", (item.text("state", "reason"), item.line))
    values["Reason"] = ("" if reason[0] in _NO_REASON else reason[0], reason[1])
    values["ExitCode"] = (_exit_code(item), item.line)
    if item.text("requeue") == "false":
        values["Requeue"] = ("0", item.line)
    return Record(values)


def _node(item: Item) -> Record:
    words = [*_words(item, "state"), *_words(item, "state_flags")]
    line = words[0][1] if words else item.line
    reason = item.get("reason")
    values = {"NodeName": (item.text("name"), item.line), "State": ("+".join(word for word, _line in words), line)}
    if reason and item.text("reason"):
        values["Reason"] = (item.text("reason"), reason.line)
    return Record(values)


def _words(item: Item, *path: str) -> Iterator[tuple[str, Line]]:
    """Yield the words of a state with their lines, be it one word or a list of them."""
    found = item.get(*path)
    for each in [*item.each(*path)] or ([found] if found else []):
        if each.text():
            yield each.text(), each.line


def _number(item: Item | None, *path: str) -> int:
    """Return the number under *path*, alone or with the word whether it is set; 0 when there is none."""
    found = item.get(*path) if item else None
    if found is None or found.text("set") == "false":
        return 0
    text = found.text("number") or found.text()
    return int(text) if text.isdigit() else 0


def _moment(seconds: int) -> str:
    try:
        return datetime.fromtimestamp(seconds, timezone.utc).isoformat()
    except (ValueError, OverflowError, OSError):
        return ""


def _exit_code(item: Item) -> str:
    """Return code and signal as ``1:0``; before 23.02 the controller's records hold the status of wait(2)."""
    status = _number(item, "exit_code")
    if status:
        return f"{status >> 8}:{status & 0x7F}"
    code, told = item.get("exit_code"), ("signal", "id")
    signal = _number(code, *told) or _number(code, "signal", "signal_id")
    return f"{_number(code, 'return_code')}:{signal}"


READER = Reader(_recognises, _read)
