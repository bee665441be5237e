"""What ``scontrol show job``, ``show node`` and ``show reservation`` print."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wheeltapper.catalogue import Catalogue
from wheeltapper.inputs.judging.slurm_records import Record, of_records
from wheeltapper.inputs.model import Document, Line, Reader, Reading

_OURS = re.compile(r"^(?:JobId=\d+ |NodeName=\S+ |ReservationName=\S+ StartTime=)", re.MULTILINE)
_PAIR = re.compile(r"(?:^|\s)(?P<key>[A-Za-z][\w:/]*)=(?P<value>\S*(?: (?![A-Za-z][\w:/]*=)\S+)*)")


def _recognises(document: Document) -> bool:
    return bool(_OURS.search(document.head))


def _read(document: Document, _catalogue: Catalogue) -> Reading:
    return of_records(document, _records(document))


def _records(document: Document) -> Iterator[Record]:
    values: dict[str, tuple[str, Line]] = {}
    for line in document.lines:
        if _OURS.match(line.text) and values:
            yield Record(values)
            values = {}
        for pair in _PAIR.finditer(line.text):
            values.setdefault(pair["key"], (pair["value"], line))
    if values:
        yield Record(values)


READER = Reader(_recognises, _read)
