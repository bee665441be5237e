"""The frame of a page that needs nothing else: no script, no font, no picture from anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from wheeltapper.report.style import STYLE

SECURITY = "default-src 'none'; style-src 'unsafe-inline'"
"""Text from users' logs stands in the page: even if it got through as markup, a browser loads and runs nothing."""


def document(title: str, subtitle: str, body: Iterable[str]) -> str:
    """Return the whole page; *body* is markup."""
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{SECURITY}">'
        f'<style>{STYLE}</style></head><body><main><header><p class="kicker">Wheeltapper</p>'
        f"<h1>{escape(title)}</h1><p>{escape(subtitle)}</p></header>{''.join(body)}</main></body></html>\n"
    )


def section(title: str, content: str, note: str = "") -> str:
    """Return a part of the page under a heading; *content* is markup."""
    told = f'<p class="note">{escape(note)}</p>' if note else ""
    return f"<section><h2>{escape(title)}</h2>{told}{content}</section>"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of cells that are markup already; only the last column holds long text and is broken."""
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    lines = "".join(f"<tr>{_cells(row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def _cells(row: Sequence[str]) -> str:
    *short, last = row
    return "".join(f'<td class="num">{cell}</td>' for cell in short) + f'<td class="long">{last}</td>'
