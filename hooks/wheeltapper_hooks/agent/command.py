"""``wheeltapper agent``: the resident process on a node, and a look at it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(help="The resident process on a node.", no_args_is_help=True)

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="The configuration file; else WHEELTAPPER_CONFIG, else /etc/wheeltapper."),
]

FAILED_NODE = 1
"""Exit code of ``status`` when the node's verdict is fail."""
TROUBLE = 2
"""Exit code when the agent cannot start or does not answer."""

STATUS_S = 5.0


@app.command()
def run(config: ConfigOption = None) -> None:
    """Watch this node until SIGTERM; SIGHUP reads the configuration again. Exit code 2: it cannot start."""
    import asyncio
    import logging

    from wheeltapper.config import load
    from wheeltapper.errors import WheeltapperError
    from wheeltapper_hooks.agent.daemon import Agent

    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S%z", level=logging.INFO
    )

    async def serve() -> None:
        await Agent(load(config), config).run()

    try:
        asyncio.run(serve())
    except (WheeltapperError, OSError) as error:
        typer.echo(f"wheeltapper agent: it cannot start: {error}", err=True)
        raise typer.Exit(TROUBLE) from error


@app.command()
def status(
    config: ConfigOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON for programs instead of text for people.")
    ] = False,
) -> None:
    """Say how this node is. Exit code 1: its verdict is fail; 2: the agent does not answer."""
    from wheeltapper.config import load
    from wheeltapper.errors import WheeltapperError
    from wheeltapper_hooks.agent.asking import ask_agent

    try:
        said = ask_agent(load(config).agent.run_dir, "status", STATUS_S)
    except (WheeltapperError, OSError, ValueError) as error:
        typer.echo(f"wheeltapper agent: it does not answer: {error}", err=True)
        raise typer.Exit(TROUBLE) from error
    typer.echo(json.dumps(said) if as_json else sentences(said))
    if said["verdict"]["state"] == "fail":
        raise typer.Exit(FAILED_NODE)


def sentences(said: dict[str, Any]) -> str:
    """Return a status as lines for people."""
    undelivered = said["undelivered"]
    lines = [
        f"{said['sentence']}. The mode is {said['mode']}.",
        said["controller"] or "The controller service was not needed yet.",
        f"{undelivered} undelivered reports wait." if undelivered else "",
        f"Trouble: {said['trouble']}." if said["trouble"] else "",
    ]
    return "\n".join(line for line in lines if line)
