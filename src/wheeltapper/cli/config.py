"""``wheeltapper config``: check, show and describe the configuration."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from wheeltapper.cli.common import ConfigOption, JsonOption, told

CHOICES = "wheeltapper.choices"
"""The entry-point group in which a room names, by a key of the configuration, the function that says what is in use."""

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
def show(given: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Print the configuration in force, defaults filled in, as JSON; on stderr, what is in use of its choices.

    With --json the latter stands in the same document, under `in_use`.
    """
    from wheeltapper import config

    with told("config show"):
        settings = config.load(given)
        chosen = {key: choose(settings) for key, choose in _choices().items()}
    document = settings.model_dump(mode="json")
    if as_json:
        document["in_use"] = {key: dataclasses.asdict(each) for key, each in chosen.items()}
    typer.echo(json.dumps(document, indent=2))
    for key, each in chosen.items() if not as_json else ():
        typer.echo(f"{key} in use: {each.used} ({each.why})", err=True)


def _choices() -> dict[str, Any]:
    """Return what says, for a key of the configuration, which of its choices is in use; each room names its own."""
    from importlib import metadata

    return {each.name: each.load() for each in sorted(metadata.entry_points(group=CHOICES), key=lambda each: each.name)}


@app.command()
def schema() -> None:
    """Print the configuration's JSON Schema, with the limits of every check."""
    from wheeltapper.checks.registry import schema

    typer.echo(json.dumps(schema(), indent=2))
