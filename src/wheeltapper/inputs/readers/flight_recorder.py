"""Dumps of PyTorch's flight recorder, one per rank: which collectives it had enqueued and which of them ended.

A dump is a pickle, and a pickle may run code. Ours are read by an unpickler that knows plain containers, numbers and
strings and refuses every name; it is the one written in Python, whose memo a forged index cannot blow up.
"""

from __future__ import annotations

import io
import json
import pickle
import re
from typing import Any

from wheeltapper.catalogue import Catalogue
from wheeltapper.inputs.judging.recorder import Dump, Op
from wheeltapper.inputs.model import HEAD, Document, Reader, Reading

_RANK = re.compile(r"(\d+)(?:\.(?:pickle|pkl|json|bin))?$")
_PICKLE = re.compile(rb"^\x80[\x02-\x05]")
_KEYS = (b"pg_config", b"nccl_version", b"record_id")
_P2P = re.compile(r"(?P<way>send|recv) (?P<me>\d+)(?:->|<-)(?P<peer>\d+)")


class _PlainUnpickler(pickle._Unpickler):  # noqa: SLF001 - see the module's docstring
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"a dump holds plain values, and this one asks for {module}.{name}")

    def persistent_load(self, _pid: Any) -> Any:
        raise pickle.UnpicklingError("a dump refers to nothing outside it")


def _recognises(document: Document) -> bool:
    head = document.data[:HEAD]
    is_kind = bool(_PICKLE.match(head)) or head.lstrip()[:1] == b"{"
    return is_kind and any(key in head for key in _KEYS) and bool(_RANK.search(document.name))


def _read(document: Document, _catalogue: Catalogue) -> Reading:
    content = load(document.data)
    rank = _RANK.search(document.name)
    if content is None or rank is None:
        return Reading()
    try:
        return Reading(dumps=(_dump(document.name, int(rank[1]), content),))
    except (KeyError, TypeError, ValueError, AttributeError):
        return Reading()  # a dump that was cut or is of another make says nothing


def load(data: bytes) -> dict[str, Any] | None:
    """Return the content of a dump, or None when *data* is none or holds more than plain values."""
    try:
        content = json.loads(data) if data.lstrip()[:1] == b"{" else _PlainUnpickler(io.BytesIO(data)).load()
    except Exception:  # noqa: BLE001 - a forged or cut pickle may raise anything, and it is only not a dump then
        return None
    return content if isinstance(content, dict) else None


def _dump(file: str, rank: int, content: dict[str, Any]) -> Dump:
    groups = {str(name): _ranks(group.get("ranks")) for name, group in content["pg_config"].items()}
    ops = tuple(_op(entry, groups) for entry in content["entries"])
    enqueued: dict[str, int] = {}
    ids = {str(entry["pg_id"]): _group(entry) for entry in content["entries"]}
    for number, status in content.get("pg_status", {}).items():
        if str(number) in ids:
            enqueued[ids[str(number)]] = int(status.get("last_enqueued_collective", -1))
    return Dump(rank, file, groups, ops, enqueued)


def _ranks(listed: Any) -> tuple[int, ...]:
    # PyTorch writes the list as a JSON string.
    values = json.loads(listed) if isinstance(listed, str) and listed.strip() else listed or ()
    return tuple(int(value) for value in values)


def _group(entry: dict[str, Any]) -> str:
    named = entry.get("process_group")
    return str(named[0]) if named else str(entry.get("pg_id"))


def _op(entry: dict[str, Any], groups: dict[str, tuple[int, ...]]) -> Op:
    group, name = _group(entry), str(entry.get("profiling_name", "")).removeprefix("nccl:")
    found = _P2P.search(name)
    members = groups.get(group, ())
    peer = members[int(found["peer"])] if found and int(found["peer"]) < len(members) else None
    if found and group == "0" and int(found["peer"]) in members:
        peer = int(found["peer"])  # in the whole world a place in the group is the rank itself
    return Op(
        group=group,
        name=name.partition(" ")[0],
        # Before PyTorch 2.4 one number counted both kinds.
        sequence=int(entry.get("p2p_seq_id" if found else "collective_seq_id", entry.get("seq_id", 0))),
        peer=peer,
        is_p2p=bool(found) or bool(entry.get("is_p2p")),
        done=entry.get("state") == "completed" or bool(entry.get("retired")),
        started=entry.get("state") == "started" or bool(entry.get("time_discovered_started_ns")),
        sizes=json.dumps([entry.get("input_sizes"), entry.get("output_sizes")]),
    )


READER = Reader(_recognises, _read, order=10)
