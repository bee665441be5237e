"""``wheeltapper drill``: plays a fault on this node and shows where it was seen, to try a set-up out."""

from __future__ import annotations

from typing import Annotated

import typer

from wheeltapper.cli.common import BAD_INPUT, ConfigOption, JsonOption

app = typer.Typer()

NOT_SEEN = 1
"""Exit code when a station did not see the drill."""

DRILL_S = 15.0
"""Longer than the agent gives its stations together."""


@app.command()
def drill(
    kind: Annotated[
        str, typer.Argument(help="xid-79 and xid-48 would take a node out; xid-13, link-down, oom must not.")
    ],
    node: Annotated[
        str | None, typer.Option(help="The node that is meant; a drill is played where it is typed.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Play a marked fault on this node, and show where it was seen: kernel log, agent, controller, ledger.

    Nothing is drained and nothing requeued, whatever the mode is. Exit codes: 0 every station saw it, 1 one did not,
    2 there is no such drill, no agent, or this is another node.
    """
    import json
    from typing import Any

    from wheeltapper import drills
    from wheeltapper.config import load
    from wheeltapper.errors import WheeltapperError
    from wheeltapper_hooks.agent.asking import ask_agent

    said: dict[str, Any]
    try:
        if kind not in drills.LINES:
            raise ValueError(f"there is no drill {kind!r}; there are {', '.join(drills.LINES)}")  # noqa: TRY301
        run_dir = load(config).agent.run_dir
        here = ask_agent(run_dir, "status")["node"]
        if node not in {None, here}:
            raise ValueError(f"this is {here}; type it on {node} (ssh {node} wheeltapper drill {kind})")  # noqa: TRY301
        said = ask_agent(run_dir, "drill", DRILL_S, KIND=kind)
    except OSError as error:
        typer.echo(f"wheeltapper drill: the agent does not answer: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from error
    except (WheeltapperError, ValueError) as error:
        typer.echo(f"wheeltapper drill: {error}", err=True)
        raise typer.Exit(BAD_INPUT) from error
    if as_json:
        typer.echo(json.dumps(said))
    else:
        typer.echo(f"Drill {said['kind']} on {said['node']} ({said['mark']}). Nothing is drained or requeued for it.")
        for station in said["stations"]:
            typer.echo(f"  {'seen    ' if station['seen'] else 'NOT SEEN'}  {station['name']:<11} {station['told']}")
    if not all(station["seen"] for station in said["stations"]):
        raise typer.Exit(NOT_SEEN)
