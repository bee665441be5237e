"""``wheeltapper catalogue``: which signatures there are, what one says, and whether a site's own are right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wheeltapper.cli.common import BAD_INPUT, NOT_FOUND, JsonOption, told
from wheeltapper.evidence import Source

if TYPE_CHECKING:
    from wheeltapper.catalogue import Catalogue, Meaning, Signature

app = typer.Typer(help="Show the signatures that findings come from, and try your own.", no_args_is_help=True)

FolderOption = Annotated[
    list[Path] | None, typer.Option("--folder", help="A folder with signatures of your own; may be given again.")
]


@app.command("list")
def list_(
    folder: FolderOption = None,
    label: Annotated[str, typer.Option(help="Only labels that begin so, such as hardware or network/dns.")] = "",
    as_json: JsonOption = False,
) -> None:
    """List all signatures: id, label, role, and what a match means."""
    entries = [each for each in _load(folder).signatures if _bears(each, label)]
    if as_json:
        typer.echo(json.dumps([as_record(each) for each in entries], indent=2))
        return
    for each in entries:
        meaning = each.meaning
        typer.echo(f"{each.id:<28} {meaning.label:<36} {meaning.role.value:<8} {meaning.summary}")


@app.command()
def show(name: str, folder: FolderOption = None, as_json: JsonOption = False) -> None:
    """Show one signature in full. Exit code 3 when there is none of that id."""
    found = next((each for each in _load(folder).signatures if name in each.names), None)
    if found is None:
        typer.echo(f"wheeltapper catalogue show: there is no signature {name}", err=True)
        raise typer.Exit(NOT_FOUND)
    record = as_record(found)
    if as_json:
        typer.echo(json.dumps(record, indent=2))
        return
    rows = record.pop("rows")
    for key, value in record.items():
        for one in value if isinstance(value, list) else [value]:
            typer.echo(f"{key:<12} {one}")
    for value, row in rows.items():
        typer.echo(
            f"{found.key}={value:<8} {row['label']:<28} {row['role']:<8} {row['disposition']:<12} {row['summary']}"
        )


@app.command("test")
def try_(
    folder: Annotated[list[Path] | None, typer.Argument(help="Folders with signatures of your own.")] = None,
    line: Annotated[str | None, typer.Option(help="A line to look up; without it only the files are checked.")] = None,
    source: Annotated[Source, typer.Option(help="Whose words the line is.")] = Source.JOB_LOG,
) -> None:
    """Check your own signatures, and say what the catalogue makes of a line.

    Every signature must match its own examples and none of its near misses. Exit codes: 0 all is right, 2 a file is
    wrong (its name and line are told), 3 nothing matches the line.
    """
    missing = [each for each in folder or [] if not each.is_dir()]
    if missing:
        typer.echo(f"wheeltapper catalogue test: {missing[0]} is no folder", err=True)
        raise typer.Exit(BAD_INPUT)
    known = _load(folder)
    if line is None:
        typer.echo(f"{len(known.signatures)} signatures, all right")
        return
    matches = known.match(line, source)
    for each in matches:
        meaning = each.meaning
        typer.echo(
            f"{each.signature}: {meaning.label} {each.detail}".rstrip() + f" ({meaning.role.value}): {each.summary}"
        )
    if not matches:
        typer.echo(f"nothing matches this line of {source.value}")
        raise typer.Exit(NOT_FOUND)


def as_record(signature: Signature) -> dict[str, Any]:
    """Return *signature* as JSON values, under the names that its file uses."""
    return {
        "id": signature.id,
        **_meaning(signature.meaning),
        "sources": sorted(each.value for each in signature.sources),
        "anchors": list(signature.anchors),
        "pattern": signature.pattern.pattern,
        "detail": signature.detail,
        "instead_of": sorted(signature.instead_of),
        "examples": list(signature.examples),
        "near_misses": list(signature.near_misses),
        "source": signature.origin,
        "rows": {value: _meaning(row) for value, row in signature.rows.items()},
    }


def _meaning(meaning: Meaning) -> dict[str, str]:
    return {
        "label": meaning.label,
        "role": meaning.role.value,
        "disposition": meaning.disposition.value,
        "summary": meaning.summary,
    }


def _bears(signature: Signature, label: str) -> bool:
    return any(each.label.startswith(label) for each in (signature.meaning, *signature.rows.values()))


def _load(folders: list[Path] | None) -> Catalogue:
    from wheeltapper.catalogue import load

    with told("catalogue"):
        return load(folders or [])
