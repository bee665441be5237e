"""``wheeltapper ledger``: take in what others have recorded, and drop what is old."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from wheeltapper.cli.common import ConfigOption, told

app = typer.Typer(help="Take records in, and drop old ones.", no_args_is_help=True)


@app.command("import-sacct")
def import_sacct(
    file: Annotated[Path, typer.Argument(help="What sacct printed, as a table or JSON; - for standard input.")],
    config: ConfigOption = None,
) -> None:
    """Record the jobs of the time before Wheeltapper; a second time changes nothing.

    SLURM_TIME_FORMAT=%s sacct --allusers --duplicates --allocations --parsable2 --starttime=2026-01-01
    --format=JobIDRaw,JobID,User,Partition,State,ExitCode,Start,End,NodeList,AllocTRES,FailedNode,Reason,JobName

    Exit codes: 0 done, 2 the file, the configuration or the ledger is wrong.
    """
    from wheeltapper import config as configuration
    from wheeltapper.ledger.importing import take_in
    from wheeltapper.ledger.sacct import attempts
    from wheeltapper.ledger.store import Ledger

    with told("ledger import-sacct"):
        text = _text(file)
        settings = configuration.load(config)
        with closing(Ledger.of(settings)) as ledger:
            done = take_in(ledger, attempts(text, str(file)), "sacct", settings.diagnosis.window_s)
    typer.echo(
        f"{done.given} attempts had run and ended: {done.interruptions} interruptions and {done.runs} completed runs"
        f" are new, {done.given - done.interruptions - done.runs} were recorded before."
    )


@app.command("import-kubernetes")
def import_kubernetes(
    file: Annotated[Path, typer.Argument(help="What kubectl printed, as JSON; - for standard input.")],
    config: ConfigOption = None,
) -> None:
    """Record the interruptions that a Kubernetes cluster holds; a second time changes nothing.

    kubectl get interruptions --all-namespaces --output=json

    Exit codes: 0 done, 2 the file, the configuration or the ledger is wrong; then nothing was recorded.
    """
    from wheeltapper import config as configuration
    from wheeltapper.ledger.importing import take_over
    from wheeltapper.ledger.kubernetes import interruptions
    from wheeltapper.ledger.store import Ledger

    with told("ledger import-kubernetes"):
        text = _text(file)
        with closing(Ledger.of(configuration.load(config))) as ledger:
            done = take_over(ledger, interruptions(text, str(file)), "kubernetes")
    typer.echo(f"{done.interruptions} interruptions are new, {done.given - done.interruptions} were recorded before.")


@app.command()
def merge(
    other: Annotated[str, typer.Argument(help="Another ledger: its file, or a PostgreSQL connection string.")],
    config: ConfigOption = None,
) -> None:
    """Copy the records of another ledger into this one; a second time changes nothing.

    Clusters are told apart by their name in the configuration (`cluster`): give each its own before it records.

    Exit codes: 0 done, 2 the configuration or one of the ledgers is wrong.
    """
    from wheeltapper import config as configuration
    from wheeltapper.ledger.database import PostgreSQL
    from wheeltapper.ledger.merge import merge as merge_ledgers
    from wheeltapper.ledger.store import Ledger

    with told("ledger merge"):
        is_server = "://" in other or "=" in other
        database = PostgreSQL(other, read_only=True) if is_server else None
        source = Ledger(Path(other), read_only=True, database=database)
        with closing(source), closing(Ledger.of(configuration.load(config))) as ledger:
            new = merge_ledgers(ledger, source)
    typer.echo(f"{new} interruptions are new.")


@app.command()
def forget(
    days: Annotated[int, typer.Option(min=30, help="Drop what is older than this many days.")],
    config: ConfigOption = None,
) -> None:
    """Drop old records now; `ledger.keep_days` in the configuration does it daily.

    Exit codes: 0 done, 2 the configuration or the ledger is wrong.
    """
    import time

    from wheeltapper import config as configuration
    from wheeltapper.ledger.store import PAGE, Ledger

    before = time.time() - days * 86_400
    gone = 0
    with told("ledger forget"), closing(Ledger.of(configuration.load(config))) as ledger:
        while dropped := ledger.forget(before):
            gone += dropped
            if dropped < PAGE:
                break
    typer.echo(f"{gone} interruptions of before are dropped.")


def _text(file: Path) -> str:
    """Return what stands in *file*, or comes in when it is ``-``.

    Raises:
        WheeltapperError: it cannot be read.
    """
    from wheeltapper.errors import WheeltapperError

    try:
        return sys.stdin.read() if str(file) == "-" else file.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise WheeltapperError(f"{file} cannot be read: {error}") from error
