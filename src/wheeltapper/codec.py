"""Frozen records to JSON and back, for the wire, the ledger and ``--json``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


_adapters: dict[Any, TypeAdapter[Any]] = {}


def _adapter(of: Any) -> TypeAdapter[Any]:
    # Building an adapter costs milliseconds, using one microseconds; there are about ten record types.
    if of not in _adapters:
        from pydantic import TypeAdapter  # noqa: PLC0415 - takes longer than all else that `diagnose` needs

        _adapters[of] = TypeAdapter(of)
    return _adapters[of]


def dump(record: Any) -> Any:
    """Return *record* as plain JSON values."""
    if isinstance(record, Enum):
        return record.value
    if dataclasses.is_dataclass(record):
        return {each.name: dump(getattr(record, each.name)) for each in dataclasses.fields(record)}
    if isinstance(record, Mapping):
        return {str(dump(key)): dump(value) for key, value in record.items()}
    if isinstance(record, (list, tuple, set, frozenset)):
        return [dump(each) for each in record]
    return str(record) if isinstance(record, Path) else record


def dumps(record: Any) -> str:
    """Return *record* as JSON text."""
    return _adapter(type(record)).dump_json(record).decode()


def loads(of: type[T], text: str | bytes) -> T:
    """Return the record of type *of* in the JSON *text*; raise ``pydantic.ValidationError`` when it holds none."""
    return _adapter(of).validate_json(text)  # type: ignore[no-any-return]


def load(of: type[T], value: Any) -> T:
    """Return the record of type *of* in plain JSON values; raise ``pydantic.ValidationError`` when they hold none."""
    return _adapter(of).validate_python(value)  # type: ignore[no-any-return]
