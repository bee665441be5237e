"""Which signatures match a line: one pass for all literal anchors, then the patterns behind those that were found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import ahocorasick

from wheeltapper.catalogue.model import Match, Signature
from wheeltapper.evidence import Source


class Catalogue:
    """All signatures, ready to match. Immutable, and safe to use on both sides of a fork."""

    def __init__(self, signatures: Iterable[Signature]) -> None:
        """Index *signatures* by source and anchor; their order is the order of the matches."""
        self.signatures = tuple(signatures)
        self._anchors = {source: self._index(source) for source in Source}

    def _index(self, source: Source) -> ahocorasick.Automaton:
        owners: dict[str, list[int]] = {}
        for number, signature in enumerate(self.signatures):
            if source in signature.sources:
                for anchor in signature.anchors:
                    owners.setdefault(anchor, []).append(number)
        automaton = ahocorasick.Automaton()
        for anchor, numbers in owners.items():
            automaton.add_word(anchor, tuple(numbers))
        if owners:
            automaton.make_automaton()
        return automaton

    def positions(self, text: str, source: Source) -> Iterator[int]:
        """Yield where in *text* an anchor ends: cheap enough to ask of whole blocks."""
        anchors = self._anchors[source]
        if anchors:
            for end, _numbers in anchors.iter(text):
                yield end

    def match(self, text: str, source: Source) -> tuple[Match, ...]:
        """Return what the catalogue says of one line of *source*, in the catalogue's order."""
        anchors = self._anchors[source]
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
