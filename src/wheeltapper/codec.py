"""Frozen records to JSON and back, for the wire, the ledger and ``--json``."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import TypeAdapter

T = TypeVar("T")


_adapters: dict[Any, TypeAdapter[Any]] = {}


def _adapter(of: Any) -> TypeAdapter[Any]:
    # Building an adapter costs milliseconds, using one microseconds; there are about ten record types.
    if of not in _adapters:
        _adapters[of] = TypeAdapter(of)
    return _adapters[of]


def dump(record: Any) -> Any:
    """Return *record* as plain JSON values."""
    return _adapter(type(record)).dump_python(record, mode="json")


def dumps(record: Any) -> str:
    """Return *record* as JSON text."""
    return _adapter(type(record)).dump_json(record).decode()


def loads(of: type[T], text: str | bytes) -> T:
    """Return the record of type *of* in the JSON *text*; raise ``pydantic.ValidationError`` when it holds none."""
    return _adapter(of).validate_json(text)  # type: ignore[no-any-return]


def load(of: type[T], value: Any) -> T:
    """Return the record of type *of* in plain JSON values; raise ``pydantic.ValidationError`` when they hold none."""
    return _adapter(of).validate_python(value)  # type: ignore[no-any-return]
