"""Every engine gives the same answers; which one runs changes the speed and nothing else."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wheeltapper import catalogue
from wheeltapper.catalogue import engines
from wheeltapper.catalogue.engines import FASTEST_FIRST, AhoCorasick, fastest
from wheeltapper.catalogue.matching import COLOUR
from wheeltapper.evidence import Source

CATALOGUE = catalogue.load()
ANCHORS = [*sorted({anchor.encode() for each in CATALOGUE.signatures for anchor in each.anchors}), COLOUR]


def built(literals):
    return [engine(literals) for engine in FASTEST_FIRST]


@pytest.fixture(scope="module")
def of_catalogue():
    return built(ANCHORS)


def lines_hit(engine, block: bytes) -> set[int]:
    found = list(engine.ends(block))
    assert found == sorted(found)
    return {block.count(b"\n", 0, position) for position in found}


@given(
    st.lists(st.text("abc.*[(", min_size=1, max_size=4).map(str.encode), max_size=6),
    st.lists(st.sampled_from([b"a", b"b", b"c", b".", b"*", b"[", b"(", b"\n", b"\xff", b"\x00"]), max_size=60),
)
def test_all_engines_find_exactly_the_lines_that_hold_a_literal(literals, parts):
    block = b"".join(parts)
    wanted = {n for n, line in enumerate(block.split(b"\n")) if any(each in line for each in literals)}
    assert [lines_hit(engine, block) for engine in built(literals)] == [wanted] * len(FASTEST_FIRST)


@settings(max_examples=50)
@given(st.lists(st.one_of(st.sampled_from(ANCHORS), st.binary(max_size=20), st.just(b"\n")), max_size=80))
def test_all_engines_agree_on_the_anchors_of_the_catalogue(of_catalogue, parts):
    block = b"".join(parts)
    hits = [lines_hit(engine, block) for engine in of_catalogue]
    pattern = re.compile(b"|".join(map(re.escape, ANCHORS)))
    assert hits == [{n for n, line in enumerate(block.split(b"\n")) if pattern.search(line)}] * len(hits)


def test_every_example_of_the_catalogue_is_seen_from_afar(of_catalogue):
    for signature in CATALOGUE.signatures:
        for line in signature.examples:
            for source in signature.sources:
                assert not CATALOGUE.match(line, source) or CATALOGUE.positions(line.encode(), source)


@pytest.mark.parametrize("broken", [ImportError, OSError])
def test_what_is_not_installed_is_passed_over(monkeypatch, broken):
    def absent(_literals):
        raise broken

    monkeypatch.setattr(engines, "FASTEST_FIRST", (absent, AhoCorasick))
    fastest.cache_clear()
    try:
        assert fastest() is AhoCorasick
    finally:
        fastest.cache_clear()


def test_a_source_without_signatures_finds_nothing():
    for engine in FASTEST_FIRST:
        empty = catalogue.Catalogue((), engine)
        assert not empty.positions(b"Error: anything\n", Source.JOB_LOG)
        assert empty.match("Error: anything", Source.JOB_LOG) == ()
