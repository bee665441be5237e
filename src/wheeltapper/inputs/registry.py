"""Which reader a document belongs to. A new kind is a new module in ``readers/`` with a ``READER``: no list to edit."""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache

from wheeltapper.inputs import readers
from wheeltapper.inputs.model import Document, Reader

LARGEST = 16 << 20
"""Bytes beyond which a file is a log and no document: they are read whole, and a log is streamed."""


@lru_cache(maxsize=1)
def all_readers() -> tuple[Reader, ...]:
    """Return the readers in the order in which they are asked."""
    names = sorted(module.name for module in pkgutil.iter_modules(readers.__path__))
    found = [importlib.import_module(f"{readers.__name__}.{name}").READER for name in names]
    return tuple(sorted(found, key=lambda reader: reader.order))


def reader_for(name: str, head: bytes) -> Reader | None:
    """Return the reader that recognises a file by its *name* and first bytes; None for a log."""
    document = Document(name, head)
    return next((reader for reader in all_readers() if reader.recognises(document)), None)
