"""The time before us, from a cluster's own objects: what ``kubectl get interruptions`` prints as records. Pure.

Asked for as ``kubectl get interruptions --all-namespaces --output=json``. The operator keeps the whole record in each
object, under the identity of the attempt, so nothing is diagnosed anew and nothing is recorded twice.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from wheeltapper import codec
from wheeltapper.config import explain
from wheeltapper.errors import WheeltapperError
from wheeltapper.kubernetes_names import GROUP
from wheeltapper.ledger.model import Interruption

KIND = "Interruption"


def interruptions(text: str, name: str) -> Iterator[Interruption]:
    """Yield the records in *text*, a list of Interruption objects or one of them; *name* is the file's name in errors.

    Raises:
        WheeltapperError: the text is no such JSON, or an object is none of ours, or holds no record; it is named.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        raise WheeltapperError(f"{name} is not JSON ({error}); ask kubectl for --output=json") from error
    if not isinstance(found, Mapping):
        raise WheeltapperError(f"{name} is no output of `kubectl get interruptions --output=json`")
    items = found.get("items", [found])
    if not isinstance(items, list):
        raise WheeltapperError(f"{name}: items is no list")
    for number, item in enumerate(items):
        yield _record(item, f"{name}: items[{number}]" if "items" in found else name)


def _record(item: Any, where: str) -> Interruption:
    if not isinstance(item, Mapping):
        raise WheeltapperError(f"{where} is no object")
    where = f"{where} ({_called(item)})"
    if (item.get("apiVersion"), item.get("kind")) != (GROUP, KIND):
        raise WheeltapperError(f"{where} is no {KIND} of {GROUP}")
    spec = item.get("spec")
    record = spec.get("record") if isinstance(spec, Mapping) else None
    if record is None:
        raise WheeltapperError(f"{where}: spec.record: there is none")
    try:
        return codec.load(Interruption, record)
    except ValidationError as error:
        raise WheeltapperError(f"{where}: {explain(error, 'spec.record')}") from error


def _called(item: Mapping[str, Any]) -> str:
    meta = item.get("metadata")
    if not isinstance(meta, Mapping):
        return "it has no name"
    return "/".join(str(meta[key]) for key in ("namespace", "name") if meta.get(key)) or "it has no name"
