"""``wheeltapper checks``: which checks there are, what each asks and why, and whether it applies to this node."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wheeltapper.cli.common import NOT_FOUND, ConfigOption, JsonOption, told

if TYPE_CHECKING:
    from wheeltapper.checks.registry import Chosen
    from wheeltapper.config import Config

app = typer.Typer(help="Show the checks of a node, and their limits.", no_args_is_help=True)


@app.command("list")
def list_(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """List the checks that this node runs, and what each asks. Exit code 2: the configuration is wrong."""
    from wheeltapper.checks import describe

    with told("checks list"):
        _, chosen = _chosen(config)
    if as_json:
        typer.echo(json.dumps([describe.as_record(each) for each in chosen], indent=2))
        return
    for each in chosen:
        mark = "may take the node out" if each.may_convict else "warns"
        period = f"{each.check.probe.every_s:g} s"
        typer.echo(f"{each.check.name:<28} {period:>7}  {mark:<22} {describe.headline(each)}")


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="A check's name, as `wheeltapper checks list` shows it.")],
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show one check: what it asks, its limits with unit and reason, and what it says of this node now.

    Exit codes: 0 shown, 2 the configuration is wrong, 3 there is no such check, or it is off.
    """
    import asyncio

    from wheeltapper import codec
    from wheeltapper.checks import describe
    from wheeltapper.checks.outcome import Result

    with told("checks show"):
        settings, chosen = _chosen(config)
    found = next((each for each in chosen if each.check.name == name), None)
    if found is None:
        typer.echo(f"wheeltapper checks show: there is no check {name}, or it is off", err=True)
        raise typer.Exit(NOT_FOUND)
    here = asyncio.run(_asked_once(found, settings))
    if as_json:
        typer.echo(json.dumps({**describe.as_record(found), "here": codec.dump(here)}, indent=2))
        return
    typer.echo(describe.as_text(found))
    applies = "does not apply here" if here.result is Result.NOT_APPLICABLE else f"says {here.result.value} here"
    typer.echo(f"It {applies}{': ' if here.reason else ''}{here.reason}.")


def _chosen(config: Any) -> tuple[Config, tuple[Chosen, ...]]:
    from wheeltapper.checks.registry import choose
    from wheeltapper.config import load

    settings = load(config)
    return settings, choose(settings.checks)


async def _asked_once(chosen: Chosen, settings: Config) -> Any:
    from wheeltapper_hooks.agent.boot import host_of, read_boot_id
    from wheeltapper_hooks.agent.probing import ProbeRun
    from wheeltapper_hooks.agent.tally import Tally

    host = host_of(settings, settings.node.name or "", read_boot_id(settings.agent.procfs))
    run = ProbeRun([chosen], host, Tally())
    await run.freshen(0.0)
    return run.outcome(chosen)
