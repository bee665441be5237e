"""Which signatures match a line: one pass for all literal anchors, then the patterns behind those that were found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import ahocorasick

from wheeltapper.catalogue.engines import AhoCorasick, Engine, EngineOf, fastest
from wheeltapper.catalogue.model import Match, Signature
from wheeltapper.evidence import Source

LARGE = 8 << 20
"""Bytes of one source from which the fastest engine pays: Aho-Corasick has searched them before Hyperscan is ready."""

COLOUR = b"\x1b["
"""A colour may stand in the middle of an anchor: lines with one are read after it was taken out."""


class Catalogue:
    """All signatures, ready to match. What it says never changes; it is safe to use on both sides of a fork."""

    def __init__(self, signatures: Iterable[Signature], engine: EngineOf | None = None) -> None:
        """Index *signatures* by source and anchor; their order is the order of the matches.

        *engine* searches all blocks; without it, how much was searched before decides.
        """
        self.signatures = tuple(signatures)
        self._engine = engine
        self._engines: dict[tuple[Source, bool], Engine] = {}
        self._searched = dict.fromkeys(Source, 0)
        self._anchors: dict[Source, ahocorasick.Automaton] = {}

    def of(self, source: Source) -> Catalogue:
        """Return the catalogue of the signatures that read *source*, without their examples: for who only matches."""
        own = (each for each in self.signatures if source in each.sources)
        return Catalogue((replace(each, examples=(), near_misses=(), origin="") for each in own), self._engine)

    def ends(self, block: bytes, source: Source) -> Sequence[int]:
        """Return in rising order where the lines of *block* end that must be read; see :class:`Engine`.

        Cheap enough to ask of gigabytes. Every line in which :meth:`match` finds something is among them.
        """
        large = self._searched[source] >= LARGE
        self._searched[source] += len(block)
        engine = self._engines.get((source, large))
        if engine is None:
            kind = self._engine or (fastest() if large else AhoCorasick)
            engine = self._engines[source, large] = kind([*map(str.encode, self._owners(source)), COLOUR])
        return engine.ends(block)

    def match(self, text: str, source: Source) -> tuple[Match, ...]:
        """Return what the catalogue says of one line of *source*, in the catalogue's order."""
        anchors = self._automaton(source)
        if not anchors:
            return ()
        candidates = {number for _end, numbers in anchors.iter(text) for number in numbers}
        found = [
            (self.signatures[number], match)
            for number in sorted(candidates)
            if (match := self.signatures[number].match(text)) is not None
        ]
        if len(found) < 2:
            return tuple(match for _signature, match in found)
        silenced = frozenset[str]().union(*(signature.instead_of for signature, _match in found))
        some_special = any(not signature.generic for signature, _match in found)
        return tuple(
            match
            for signature, match in found
            if signature.id not in silenced and not (signature.generic and some_special)
        )

    def _owners(self, source: Source) -> dict[str, tuple[int, ...]]:
        owners: dict[str, tuple[int, ...]] = {}
        for number, signature in enumerate(self.signatures):
            if source in signature.sources:
                for anchor in signature.anchors:
                    owners[anchor] = (*owners.get(anchor, ()), number)
        return owners

    def _automaton(self, source: Source) -> ahocorasick.Automaton:
        automaton = self._anchors.get(source)
        if automaton is None:
            automaton = ahocorasick.Automaton()
            for anchor, numbers in self._owners(source).items():
                automaton.add_word(anchor, numbers)
            if automaton:
                automaton.make_automaton()
            self._anchors[source] = automaton
        return automaton
