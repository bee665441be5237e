"""``wheeltapper slurm``: the controller service and what an administrator needs beside it."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import TYPE_CHECKING, Annotated

import typer

from wheeltapper.cli.common import ConfigOption, JsonOption, told
from wheeltapper.tasks import end

if TYPE_CHECKING:
    from wheeltapper.config import Config
    from wheeltapper_slurm.checkup import Advice
    from wheeltapper_slurm.client import SlurmClient

app = typer.Typer(
    help="The Slurm side: the controller service, a check of slurm.conf, and node keys.", no_args_is_help=True
)

DANGER = 1
"""Exit code of ``check`` when something would hurt users."""


@app.command()
def controller(config: ConfigOption = None) -> None:
    """Run the controller service in the foreground until it is told to stop (SIGTERM)."""
    from wheeltapper import config as configuration

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    with told("slurm controller"):
        asyncio.run(_serve(configuration.load(config)))


async def _serve(settings: Config) -> None:
    from wheeltapper_slurm import choosing, standby
    from wheeltapper_slurm.service import Service

    async def work() -> None:
        async with standby.turn(settings.controller.spool_dir), choosing.opened(settings.slurm) as client:
            await Service(settings, client).run()

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    working, stopping = asyncio.create_task(work()), asyncio.create_task(stop.wait())
    await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
    await end((working, stopping))
    if not working.cancelled():
        working.result()


@app.command()
def check(config: ConfigOption = None, as_json: JsonOption = False) -> None:
    """Say what in slurm.conf, and around it, is missing or would hurt users. For the controller, as SlurmUser or root.

    Exit codes: 0 nothing dangerous, 1 something is, 2 it could not be looked at (configuration, slurmctld).
    """
    import json

    from wheeltapper import codec
    from wheeltapper import config as configuration
    from wheeltapper_slurm.checkup import Weight
    from wheeltapper_slurm.scontrol import Scontrol

    with told("slurm check"):
        settings = configuration.load(config)
        client = Scontrol(settings.slurm.conf, settings.slurm.command_timeout_s)
        found = asyncio.run(_advice(settings, client))
    if as_json:
        typer.echo(json.dumps([codec.dump(each) for each in found], indent=2))
    else:
        for each in found:
            typer.echo(f"{each.weight.value:<7} {each.about}: {each.sentence}")
        dangers = sum(each.weight is Weight.DANGER for each in found)
        typer.echo(f"{dangers} dangerous, {len(found) - dangers} worth a look." if found else "All is as it should be.")
    if any(each.weight is Weight.DANGER for each in found):
        raise typer.Exit(DANGER)


async def _advice(settings: Config, client: SlurmClient) -> list[Advice]:
    from wheeltapper_slurm import checkup, surroundings

    shown = await client.configuration()
    around = await surroundings.look(settings.controller, shown.get("SlurmUser", ""))
    return [*checkup.advise_around(around), *checkup.advise(shown, settings.policy)]


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
