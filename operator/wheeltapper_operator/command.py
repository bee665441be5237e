"""``wheeltapper operator``: the Kubernetes side as a process."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from wheeltapper_operator.api import Api

app = typer.Typer(help="The Kubernetes side.", no_args_is_help=True)

NOT_WELL = 1
"""Exit code of ``check`` when something does not work, and of ``clean`` when something is left."""
TROUBLE = 2
"""Exit code when the operator cannot start, or the API server cannot be asked."""

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", help="The configuration file; else WHEELTAPPER_CONFIG, else /etc/wheeltapper."),
]
KubeconfigOption = Annotated[
    Path | None, typer.Option("--kubeconfig", help="Which cluster, when this does not run in a pod of it.")
]
ReleaseOption = Annotated[str, typer.Option("--release", help="The name under which helm has installed the chart.")]


@app.callback()
def main() -> None:
    """The Kubernetes side."""


@app.command()
def run(
    config: ConfigOption = None,
    kubeconfig: KubeconfigOption = None,
    probes: Annotated[str, typer.Option(help="Answer /healthz and /readyz at this host:port; nowhere if empty.")] = "",
) -> None:
    """Watch the cluster until SIGTERM. Exit code 2: it cannot start."""
    import os
    import socket
    from contextlib import AsyncExitStack

    async def serve(api: Api) -> None:
        from wheeltapper.config import load
        from wheeltapper_operator.operator import Operator
        from wheeltapper_operator.probes import served

        settings = load(config)
        operator = Operator(api, settings, f"{socket.gethostname()}-{os.getpid()}")
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(served(probes, operator.has_seen_the_cluster))
            if settings.metrics.operator_port is not None:
                from wheeltapper_operator.metrics import shown  # 10 MB that an operator without metrics need not hold

                await stack.enter_async_context(shown(settings.metrics, operator))
            await operator.run()

    _with_api(kubeconfig, serve, "it cannot start")


@app.command()
def clean(
    release: ReleaseOption,
    operator: Annotated[str, typer.Option(help="The operator's Deployment.")],
    agent: Annotated[str, typer.Option(help="The agents' DaemonSet.")],
    config: ConfigOption = None,
    kubeconfig: KubeconfigOption = None,
) -> None:
    """Stop operator and agents, and take all that is ours off nodes and jobs. Exit code 1: something is left."""

    async def work(api: Api) -> None:
        from wheeltapper.config import load
        from wheeltapper_operator import cleaning

        try:
            await cleaning.clean(api, load(config).kubernetes.namespace, release, operator, agent)
        except cleaning.SomethingLeftError as error:
            typer.echo(f"wheeltapper operator: {error}", err=True)
            raise typer.Exit(NOT_WELL) from error

    _with_api(kubeconfig, work, "it cannot clean up")


@app.command()
def check(release: ReleaseOption, config: ConfigOption = None, kubeconfig: KubeconfigOption = None) -> None:
    """Say whether an operator leads and every agent has spoken. Exit code 1: something does not work."""

    async def work(api: Api) -> None:
        from wheeltapper.config import load
        from wheeltapper_operator.checking import check as look

        wrong = await look(api, load(config).kubernetes.namespace, release)
        typer.echo("\n".join(wrong) or "An operator leads, and every agent has said how its node is.")
        if wrong:
            raise typer.Exit(NOT_WELL)

    _with_api(kubeconfig, work, "it cannot look")


def _with_api(kubeconfig: Path | None, work: Callable[[Api], Awaitable[None]], trouble: str) -> None:
    """Do *work* with the API server; end with exit code 2 and *trouble* in words when that is not possible."""
    import asyncio
    import logging

    from wheeltapper.errors import WheeltapperError

    logging.basicConfig(
        format="%(asctime)s %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S%z", level=logging.INFO
    )

    async def connected() -> None:
        from wheeltapper_operator.api import Api

        api = await Api.connect(kubeconfig)
        try:
            await work(api)
        finally:
            await api.close()

    try:
        asyncio.run(connected())
    except (WheeltapperError, OSError, ImportError) as error:
        typer.echo(f"wheeltapper operator: {trouble}: {error}", err=True)
        raise typer.Exit(TROUBLE) from error
