"""``python -m tests.pages`` (``make docs``) writes the pages of docs/checks from the checks themselves."""

from __future__ import annotations

from pathlib import Path

from wheeltapper.checks.describe import as_page, headline
from wheeltapper.checks.registry import choose
from wheeltapper.config import ChecksSection

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "checks"

INTRODUCTION = """# The checks

Made from the checks' own docstrings and limits by `make docs`. `wheeltapper checks show NAME` says the same with the values of a node.
What a check says of a node: `wheeltapper preflight`. A check is switched off with `off = ["NAME"]` in `[checks]`.

"""


def pages() -> dict[str, str]:
    """Return each page's text by its file name."""
    chosen = choose(ChecksSection(dirs=()))
    index = "".join(f"- [{each.check.name}]({each.check.name}.md): {headline(each)}\n" for each in chosen)
    return {"README.md": INTRODUCTION + index, **{f"{each.check.name}.md": as_page(each) for each in chosen}}


def main() -> None:
    """Write the pages, and take away those of checks that are gone."""
    made = pages()
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*.md"):
        if path.name not in made:
            path.unlink()
    for name, text in made.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    print(f"{len(made)} pages are in {FOLDER}.")


if __name__ == "__main__":
    main()
