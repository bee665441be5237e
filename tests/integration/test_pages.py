"""The pages of the checks are those that the checks make now."""

from __future__ import annotations

from tests.pages import FOLDER, pages


def test_the_pages_of_the_checks_are_not_stale():
    assert {path.name: path.read_text() for path in FOLDER.glob("*.md")} == pages(), "run `make docs`"
