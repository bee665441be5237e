"""The ``wheeltapper`` command. Rooms add their own commands through entry points, so no room is imported here."""

from __future__ import annotations

import importlib.metadata
from typing import Annotated

import typer

from wheeltapper import __version__
from wheeltapper.cli.catalogue import app as catalogue
from wheeltapper.cli.config import app as config
from wheeltapper.cli.diagnose import diagnose
from wheeltapper.cli.explain import explain
from wheeltapper.cli.report import report

ROOMS = "wheeltapper.commands"
"""The entry-point group in which a room names its commands."""

app = typer.Typer(
    help="Says why a training job stopped, which machine is to blame, and what was done about it.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
app.command()(diagnose)
app.command()(explain)
app.command()(report)
app.add_typer(catalogue, name="catalogue")
app.add_typer(config, name="config")
for room in importlib.metadata.entry_points(group=ROOMS):
    app.add_typer(room.load(), name=room.name)


def _version(asked: bool) -> None:  # noqa: FBT001 - typer's callback
    if asked:
        typer.echo(f"wheeltapper {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line."""
    app(prog_name="wheeltapper")


if __name__ == "__main__":
    main()
