"""``wheeltapper agent``: the resident process on a node, and a look at it."""

from __future__ import annotations

import json
import os
import sys
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

RESIDENT = "wheeltapper_hooks.agent.resident"
"""What ``run`` becomes: all that parses options would stay in memory for as long as the agent lives."""


@app.command()
def run(config: ConfigOption = None) -> None:
    """Watch this node until SIGTERM; SIGHUP reads the configuration again. Exit code 2: it cannot start."""
    arguments = [str(config)] if config else []
    lean = ["-X", "no_debug_ranges"]  # no columns of source lines: a quarter of a megabyte, from Python 3.11 on
    os.execv(sys.executable, [sys.executable, *lean, "-m", RESIDENT, *arguments])  # noqa: S606 - our own interpreter


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
