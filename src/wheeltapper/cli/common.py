"""What the commands share: options, and the one way in which they fail."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from wheeltapper.cli.exit_codes import BAD_INPUT, NOT_FOUND
from wheeltapper.errors import WheeltapperError

__all__ = ["BAD_INPUT", "NOT_FOUND", "ConfigOption", "JsonOption", "told"]

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="The configuration file; else WHEELTAPPER_CONFIG, else /etc/wheeltapper."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")]


@contextmanager
def told(command: str) -> Iterator[None]:
    """Turn an error of ours into one line on stderr and exit code 2."""
    try:
        yield
    except WheeltapperError as error:
        typer.echo(f"wheeltapper {command}: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from error
