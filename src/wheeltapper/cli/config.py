"""``wheeltapper config``: check, show and describe the configuration."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from wheeltapper.cli.common import ConfigOption, told

app = typer.Typer(help="Check, show and describe the configuration.", no_args_is_help=True)


@app.command()
def check(
    file: Annotated[Path | None, typer.Argument(help="The file to check; else the one that would be used.")] = None,
) -> None:
    """Say whether a configuration file is right, limits and files of checks included; exit code 2 when it is not."""
    from wheeltapper import config
    from wheeltapper.checks.registry import choose

    with told("config check"):
        choose(config.load(file).checks)
    typer.echo(f"{config.path(file)} is right" if config.path(file).exists() else "no file; every default applies")


@app.command()
def show(given: ConfigOption = None) -> None:
    """Print the configuration in force, defaults filled in, as JSON."""
    from wheeltapper import config

    with told("config show"):
        typer.echo(config.load(given).model_dump_json(indent=2))


@app.command()
def schema() -> None:
    """Print the configuration's JSON Schema, with the limits of every check."""
    from wheeltapper.checks.registry import schema

    typer.echo(json.dumps(schema(), indent=2))
