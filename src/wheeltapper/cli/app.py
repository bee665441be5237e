"""All commands of ``wheeltapper``. Rooms add their own commands through entry points, so no room is imported here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from wheeltapper import __version__
from wheeltapper.cli import diagnose
from wheeltapper.cli.catalogue import app as catalogue
from wheeltapper.cli.config import app as config
from wheeltapper.cli.explain import explain
from wheeltapper.cli.ledger import app as ledger
from wheeltapper.cli.report import report
from wheeltapper.cli.simulate import simulate

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ROOMS = "wheeltapper.commands"
"""The entry-point group in which a room names its commands."""


class _Commands(TyperGroup):
    """Our own commands and those of the rooms; a room is loaded when its command, or the help, is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *(room.name for room in _rooms())]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        own = super().get_command(ctx, cmd_name)
        room = None if own else next((room for room in _rooms() if room.name == cmd_name), None)
        if room is None:
            return own
        command = typer.main.get_command(room.load())
        command.name = room.name
        return command


def _rooms() -> list[EntryPoint]:
    from importlib import metadata

    return sorted(metadata.entry_points(group=ROOMS), key=lambda room: room.name)


app = typer.Typer(
    cls=_Commands,
    help="Says why a training job stopped, which machine is to blame, and what was done about it.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)
app.add_typer(catalogue, name="catalogue")
app.add_typer(config, name="config")
app.add_typer(ledger, name="ledger")


@app.command(
    "diagnose",
    help=diagnose.SUMMARY,
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def _diagnose(context: typer.Context) -> None:
    raise typer.Exit(diagnose.main(context.args))


app.command()(explain)
app.command()(report)
app.command()(simulate)


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
