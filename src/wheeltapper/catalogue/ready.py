"""The catalogue ready for use: our own signatures from a cache that proved files leave behind, a site's from its files.

Reading and proving TOML costs a tenth of a second, which people wait for at each command. So what was proved is kept as
JSON in the user's cache folder, under a hash of the very bytes that were proved, as Python keeps compiled modules.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib.util import source_hash
from pathlib import Path
from typing import Any

from wheeltapper import __version__
from wheeltapper.catalogue.matching import Catalogue
from wheeltapper.catalogue.model import Meaning, Pattern, Signature
from wheeltapper.errors import CatalogueError
from wheeltapper.evidence import Disposition, Role, Source
from wheeltapper.labels import Label

_log = logging.getLogger(__name__)

DATA = Path(__file__).with_name("data")

FORM = 2
"""Rises with each change of what the cache holds."""


def load(extra_dirs: Sequence[Path] = ()) -> Catalogue:
    """Return the catalogue: our own signatures and those in the ``*.toml`` files of *extra_dirs*.

    A folder that does not exist adds nothing. A site's signature may not take the id of another one.

    Raises:
        CatalogueError: a file cannot be read or an entry is wrong; the message names file, line and entry.
    """
    signatures: list[Signature] = []
    owners: dict[str, str] = {}
    for name, signature in (*_own(), *_of_sites(extra_dirs)):
        for taken in signature.names:
            if taken in owners:
                raise CatalogueError(f"{name}: {taken}: this id is already used in {owners[taken]}")
            owners[taken] = name
        signatures.append(signature)
    return Catalogue(signatures)


Named = tuple[str, Signature]
"""The name of a file, and a signature in it."""


def _own() -> list[Named]:
    texts = [(path.name, path.read_bytes()) for path in sorted(DATA.glob("*.toml"))]
    digest = source_hash(repr((FORM, __version__, texts)).encode()).hex()
    cache = _cache()
    known = _recall(cache, digest) if cache else None
    if known is None:
        known = [each for name, text in texts for each in _parsed(text.decode(), name)]
        if cache:
            _keep(cache, digest, known)
    return known


def _of_sites(folders: Sequence[Path]) -> Iterator[Named]:
    for folder in folders:
        for path in sorted(folder.glob("*.toml")):
            try:
                text = path.read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise CatalogueError(f"{path} cannot be read: {error}") from error
            yield from _parsed(text, str(path))


def _parsed(text: str, name: str) -> Iterator[Named]:
    from wheeltapper.catalogue.loading import parse  # noqa: PLC0415 - TOML and pydantic take longer than the rest

    return ((name, signature) for signature in parse(text, name))


def _cache() -> Path | None:
    """Return the file of the cache; None where the home is another user's, as under sudo."""
    try:
        home = Path.home()
        if home.stat().st_uid != os.geteuid():
            return None
    except (OSError, RuntimeError):
        return None
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "wheeltapper" / "catalogue.json"


def _recall(cache: Path, digest: str) -> list[Named] | None:
    try:
        with cache.open("rb") as stream:
            # Signatures decide about machines: another user's word is not taken for them.
            if os.fstat(stream.fileno()).st_uid != os.geteuid() or stream.readline().strip() != digest.encode():
                return None
            return [(name, _signature(values)) for name, values in json.load(stream)]
    except (OSError, ValueError, LookupError, TypeError) as error:
        _log.debug("The catalogue is read from its own files: %s", error)
        return None


def _keep(cache: Path, digest: str, known: Sequence[Named]) -> None:
    body = json.dumps([(name, _values(signature)) for name, signature in known])
    unfinished = cache.with_name(f"{cache.name}.{os.getpid()}")
    try:
        cache.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        unfinished.write_text(f"{digest}\n{body}", encoding="utf-8")
        unfinished.replace(cache)
    except OSError as error:
        _log.debug("The catalogue's cache cannot be written: %s", error)
        with suppress(OSError):
            unfinished.unlink()


def _values(signature: Signature) -> dict[str, Any]:
    """Return *signature* as JSON values: keys and rows hold what :func:`_signature` reads."""
    return {
        "id": signature.id,
        "meaning": _meant(signature.meaning),
        "sources": sorted(source.value for source in signature.sources),
        "anchors": signature.anchors,
        "pattern": signature.pattern.pattern,
        "detail": signature.detail,
        "key": signature.key,
        "rows": {value: _meant(row) for value, row in signature.rows.items()},
        "instead_of": sorted(signature.instead_of),
        "generic": signature.generic,
        "last_words": signature.last_words,
        "examples": signature.examples,
        "near_misses": signature.near_misses,
        "origin": signature.origin,
    }


def _signature(values: dict[str, Any]) -> Signature:
    return Signature(
        id=values["id"],
        meaning=_meaning(values["meaning"]),
        sources=frozenset(map(Source, values["sources"])),
        anchors=tuple(values["anchors"]),
        pattern=Pattern(values["pattern"]),
        detail=values["detail"],
        key=values["key"],
        rows={value: _meaning(row) for value, row in values["rows"].items()},
        instead_of=frozenset(values["instead_of"]),
        generic=values["generic"],
        last_words=values["last_words"],
        examples=tuple(values["examples"]),
        near_misses=tuple(values["near_misses"]),
        origin=values["origin"],
    )


def _meant(meaning: Meaning) -> list[str]:
    return [meaning.label, meaning.role.value, meaning.disposition.value, meaning.summary]


def _meaning(values: Sequence[str]) -> Meaning:
    label, role, disposition, summary = values
    return Meaning(Label(label), Role(role), Disposition(disposition), summary)
