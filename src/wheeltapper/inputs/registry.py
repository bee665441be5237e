"""Which reader a document belongs to. A new kind is a new module in ``readers/`` with a ``READER``, and a mark here."""

from __future__ import annotations

import importlib
import pkgutil
import re
from functools import lru_cache

from wheeltapper.inputs import readers
from wheeltapper.inputs.model import Document, Reader

LARGEST = 16 << 20
"""Bytes beyond which a file is a log and no document: they are read whole, and a log is streamed."""

SHORT = 64
"""Bytes up to which a file may be one number of sysfs, which only its name tells."""

_MARKS = re.compile(
    rb"# Port |NIC statistics:|Link \d+: |nr_throttled|oom_kill|max \d|/ports/|_count\b|aer_dev_|NVSMI LOG"
    rb"|device handle|\.gpu\b|clocks|pcie\.link|ecc\.errors|remapped_rows|retired_pages|sserted|JobID|JobId=|NodeName="
    rb"|ReservationName=|apiVersion|LAST SEEN|\"message\"|pg_config|nccl_version|record_id"
    rb"|^CA '|avg10=|degrees C|Health Monitor|Overall Health|\| Diagnostic|Uncorrected Errors|^Name: "
    rb"|GRPC server for|XidCriticalError|TOTAL_ERR_|State:  +(?:Terminated|Waiting)"
    rb"|Mounted on|limit   grace|\"(?:jobs|nodes)\"\s*:|statvfs_result|Inodes: Total",
    re.MULTILINE,
)
"""What one at least of a reader's documents holds. An ordinary log holds none, and needs no reader to be loaded."""


@lru_cache(maxsize=1)
def all_readers() -> tuple[Reader, ...]:
    """Return the readers in the order in which they are asked."""
    names = sorted(module.name for module in pkgutil.iter_modules(readers.__path__))
    found = [importlib.import_module(f"{readers.__name__}.{name}").READER for name in names]
    return tuple(sorted(found, key=lambda reader: reader.order))


def reader_for(name: str, head: bytes) -> Reader | None:
    """Return the reader that recognises a file by its *name* and first bytes; None for a log."""
    if len(head) > SHORT and not _MARKS.search(head):
        return None
    document = Document(name, head)
    return next((reader for reader in all_readers() if reader.recognises(document)), None)
