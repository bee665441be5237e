"""``wheeltapper operator``: the Kubernetes side as a process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="The Kubernetes side.", no_args_is_help=True)

TROUBLE = 2
"""Exit code when the operator cannot start."""


@app.callback()
def main() -> None:
    """The Kubernetes side."""


@app.command()
def run(
    config: Annotated[
        Path | None, typer.Option(help="The configuration file; else WHEELTAPPER_CONFIG, else /etc/wheeltapper.")
    ] = None,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Which cluster, when this does not run in a pod of it.")
    ] = None,
) -> None:
    """Watch the cluster until SIGTERM. Exit code 2: it cannot start."""
    import asyncio
    import logging
    import os
    import socket

    from wheeltapper.config import load
    from wheeltapper.errors import WheeltapperError

    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S%z", level=logging.INFO
    )

    async def serve() -> None:
        from wheeltapper_operator.api import Api
        from wheeltapper_operator.operator import Operator

        settings = load(config)
        api = await Api.connect(kubeconfig)
        try:
            await Operator(api, settings, f"{socket.gethostname()}-{os.getpid()}").run()
        finally:
            await api.close()

    try:
        asyncio.run(serve())
    except (WheeltapperError, OSError, ImportError) as error:
        typer.echo(f"wheeltapper operator: it cannot start: {error}", err=True)
        raise typer.Exit(TROUBLE) from error
