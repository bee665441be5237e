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


def lines_with(literals, block: bytes) -> list[int]:
    """Where the lines end that hold one of *literals*, by the plainest means."""
    found, at = [], 0
    for line in re.split(rb"[\r\n]", block):
        at += len(line)
        found += [at] if any(each in line for each in literals) else []
        at += 1
    return found


@given(
    st.lists(st.text("abc.*[(", min_size=1, max_size=4).map(str.encode), max_size=6),
    st.lists(st.sampled_from([b"a", b"b", b"c", b".", b"*", b"[", b"(", b"\n", b"\r", b"\xff", b"\x00"]), max_size=60),
)
def test_all_engines_find_exactly_the_lines_that_hold_a_literal(literals, parts):
    block = b"".join(parts)
    assert [list(each.ends(block)) for each in built(literals)] == [lines_with(literals, block)] * len(FASTEST_FIRST)


@settings(max_examples=50)
@given(
    st.lists(st.one_of(st.sampled_from(ANCHORS), st.binary(max_size=20), st.sampled_from([b"\n", b"\r"])), max_size=80)
)
def test_all_engines_agree_on_the_anchors_of_the_catalogue(of_catalogue, parts):
    block = b"".join(parts)
    assert [list(each.ends(block)) for each in of_catalogue] == [lines_with(ANCHORS, block)] * len(of_catalogue)


def test_every_example_of_the_catalogue_is_seen_from_afar(of_catalogue):
    for signature in CATALOGUE.signatures:
        for line in signature.examples:
            for source in signature.sources:
                assert not CATALOGUE.match(line, source) or CATALOGUE.ends(line.encode(), source)


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
        assert not empty.ends(b"Error: anything\n", Source.JOB_LOG)
        assert empty.match("Error: anything", Source.JOB_LOG) == ()
