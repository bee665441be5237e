"""The catalogue's cache: quick where it holds, without effect where it does not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wheeltapper import catalogue
from wheeltapper.catalogue import loading, ready


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "wheeltapper" / "catalogue.json"


def all_of(known):
    return [ready._values(each) for each in known.signatures]


@pytest.fixture
def read_again(monkeypatch):
    """Names of the files that were read and proved, rather than recalled."""
    names = []
    parse = loading.parse
    monkeypatch.setattr(loading, "parse", lambda text, name: names.append(name) or parse(text, name))
    return names


def test_what_is_recalled_is_what_was_proved(cache, read_again):
    proved = all_of(catalogue.load())
    assert read_again
    read_again.clear()
    assert all_of(catalogue.load()) == proved
    assert read_again == []
    assert cache.stat().st_mode & 0o077 == 0 or cache.parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("content", ["", "digest\n[]", "{digest}\n[", "{digest}\n[[1, {{}}]]", "{digest}\n7"])
def test_a_cache_that_does_not_hold_is_passed_over(cache, read_again, content):
    proved = all_of(catalogue.load())
    digest = cache.read_text().partition("\n")[0]
    cache.write_text(content.format(digest=digest))
    read_again.clear()
    assert all_of(catalogue.load()) == proved
    assert read_again


def test_a_change_of_the_files_is_seen(cache, read_again, tmp_path, monkeypatch):
    catalogue.load()
    data = tmp_path / "data"
    data.mkdir()
    (data / "cuda.toml").write_bytes((ready.DATA / "cuda.toml").read_bytes())
    monkeypatch.setattr(ready, "DATA", data)
    read_again.clear()
    assert {each.origin for each in catalogue.load().signatures}
    assert read_again == ["cuda.toml"]


def test_another_users_home_is_neither_believed_nor_written(cache, read_again, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert catalogue.load().signatures
    assert read_again
    assert not cache.exists()


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(cache):
    cache.parent.parent.mkdir()
    cache.parent.write_text("a file where the folder should be")
    assert catalogue.load().signatures
