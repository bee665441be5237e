"""``wheeltapper slurm``: the controller service and what an administrator needs beside it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from wheeltapper.cli.common import ConfigOption, told

if TYPE_CHECKING:
    from wheeltapper.config import Config
    from wheeltapper_slurm.client import SlurmClient

app = typer.Typer(help="The Slurm side: the controller service, and node keys.", no_args_is_help=True)


@app.command()
def controller(config: ConfigOption = None) -> None:
    """Run the controller service in the foreground until it is told to stop (SIGTERM)."""
    from wheeltapper import config as configuration
    from wheeltapper_slurm.scontrol import Scontrol

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    with told("slurm controller"):
        settings = configuration.load(config)
        client = Scontrol(settings.slurm.conf, settings.slurm.command_timeout_s)
        asyncio.run(_serve(settings, client))


async def _serve(settings: Config, client: SlurmClient) -> None:
    from wheeltapper_slurm.service import Service

    work = asyncio.ensure_future(Service(settings, client).run())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, work.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await work


@app.command()
def key(
    nodes: Annotated[list[str], typer.Argument(help="Names of nodes as Slurm has them.")],
    config: ConfigOption = None,
) -> None:
    """Print the key of each node, derived from the controller's key: what that node's key file must hold."""
    from wheeltapper import config as configuration
    from wheeltapper import wire

    with told("slurm key"):
        master = wire.read_key(configuration.load(config).controller.key_file)
    for node in nodes:
        secret = wire.node_key(master, node).decode()
        typer.echo(secret if len(nodes) == 1 else f"{node} {secret}")
