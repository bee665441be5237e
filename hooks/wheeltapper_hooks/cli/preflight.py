"""``wheeltapper preflight``: is this node fit for a job? A table with the verdict and the reason of each check."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from wheeltapper.cli.common import BAD_INPUT, NOT_FOUND, ConfigOption, JsonOption

if TYPE_CHECKING:
    from wheeltapper_hooks.agent.preflight import Preflight

app = typer.Typer()

FAILED = 1
"""Exit code when the verdict is fail."""

COLOURS = {"ok": "green", "warn": "yellow", "fail": "bold red", "unknown": "magenta", "not applicable": "dim"}


@app.command()
def preflight(
    gpu: Annotated[
        list[str] | None,
        typer.Option("--gpu", help="PCI address of a GPU of the job; warnings of other GPUs are left out. May repeat."),
    ] = None,
    show_all: Annotated[
        bool, typer.Option("--all", help="Also list the checks that do not apply to this node.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say whether this node is fit for a job, and what each check says.

    The agent is asked; where none runs, the checks are made here and now. Exit codes: 0 fit (ok or warn), 1 not fit,
    2 the configuration or an address is wrong, 3 unknown: it could not be looked at in full.
    """
    from wheeltapper import codec
    from wheeltapper.config import load
    from wheeltapper.errors import WheeltapperError
    from wheeltapper.verdict import State
    from wheeltapper_hooks.agent import preflight as agent

    try:
        said = agent.preflight(load(config), _addresses(gpu or ()))
    except (WheeltapperError, OSError) as error:
        typer.echo(f"wheeltapper preflight: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from error
    typer.echo(codec.dumps(said)) if as_json else _print(said, show_all=show_all)
    if said.verdict.state is State.FAIL:
        raise typer.Exit(FAILED)
    if said.verdict.state is State.UNKNOWN:
        raise typer.Exit(NOT_FOUND)


def _addresses(given: Iterable[str]) -> list[str]:
    from wheeltapper.errors import ConfigError
    from wheeltapper.evidence import pci_address

    found = {each: pci_address(each) for each in given}
    for each, address in found.items():
        if address is None:
            raise ConfigError(f"{each!r} is no PCI address; one looks like 0000:3b:00")
    return [each for each in found.values() if each]


def _print(said: Preflight, *, show_all: bool) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from wheeltapper.checks.outcome import Result

    console = Console()
    table = Table("check", "verdict", "age", "reason")
    shown = [each for each in said.checks if show_all or each.result is not Result.NOT_APPLICABLE]
    for each in shown:
        age = "" if each.age_s is None else f"{each.age_s:.0f} s"
        colour = COLOURS[each.result.value]
        table.add_row(each.check, f"[{colour}]{each.result.value}[/]", age, escape(each.reason))
    console.print(table)
    if len(shown) < len(said.checks):
        console.print(f"{len(said.checks) - len(shown)} checks do not apply to this node; --all lists them.")
    by = "Asked: the agent." if said.asked == "agent" else "No agent runs here, so this process has looked itself."
    console.print(f"{said.sentence}. {by}", markup=False, highlight=False, soft_wrap=True)
