"""``wheeltapper report``: which kinds of interruption cost most, and which nodes were taken out."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wheeltapper.cli.common import BAD_INPUT, ConfigOption, JsonOption, told

if TYPE_CHECKING:
    from wheeltapper.config import Config
    from wheeltapper.ledger.survey import Survey
    from wheeltapper.ledger.totals import Totals


def report(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    days: Annotated[float, typer.Option(min=0.01, help="How many days back.")] = 30.0,
    html: Annotated[Path | None, typer.Option(help="Write a page with plots to this file.")] = None,
    markdown: Annotated[bool, typer.Option(help="Print a summary in Markdown, to be mailed.")] = False,
    csv: Annotated[bool, typer.Option(help="Print the kinds as CSV.")] = False,
    job: Annotated[str | None, typer.Option(help="Tell the story of this job on the page, too.")] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count the interruptions of the last days by kind, and list the nodes that were taken out.

    Exit codes: 0 told, 2 the configuration, the ledger or the options are wrong.
    """
    import json

    from wheeltapper import codec
    from wheeltapper import config as configuration

    if sum((html is not None, markdown, csv, as_json)) > 1:
        typer.echo("wheeltapper report: --html, --markdown, --csv and --json exclude each other", err=True)
        raise typer.Exit(BAD_INPUT)
    with told("report"):
        settings = configuration.load(config)
        if html is not None or markdown or csv:
            _told_at_length(_surveyed(settings, days, job), html, markdown=markdown)
            return
        sums = _summed(settings, days)
    if as_json:
        typer.echo(json.dumps(codec.dump(sums), indent=2))
        return
    _print(sums, days)


def _summed(settings: Config, days: float) -> Totals:
    import time

    from wheeltapper.ledger.store import Ledger
    from wheeltapper.ledger.totals import totals

    now = time.time()
    ledger = Ledger.of(settings, read_only=True)
    try:
        return totals(ledger, now - days * 86_400, now)
    finally:
        ledger.close()


def _surveyed(settings: Config, days: float, job: str | None) -> Survey:
    import time

    from wheeltapper.ledger.store import Ledger
    from wheeltapper.ledger.survey import survey

    now = time.time()
    ledger = Ledger.of(settings, read_only=True)
    try:
        return survey(ledger, now - days * 86_400, now, job)
    finally:
        ledger.close()


def _told_at_length(of: Survey, html: Path | None, *, markdown: bool) -> None:
    from wheeltapper.errors import WheeltapperError
    from wheeltapper.report.page import page
    from wheeltapper.report.text import kinds_csv
    from wheeltapper.report.text import markdown as as_markdown

    if html is None:
        typer.echo(as_markdown(of) if markdown else kinds_csv(of), nl=False)
        return
    try:
        html.write_text(page(of), encoding="utf-8")
    except OSError as error:
        raise WheeltapperError(f"{html} cannot be written: {error}") from error
    typer.echo(f"{html} tells of {of.totals.interruptions} interruptions.")


def _print(sums: Totals, days: float) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from wheeltapper.report.words import gpu_hours

    console = Console()
    if not sums.interruptions:
        console.print(f"No interruption in the last {days:g} days.")
    else:
        cost = any(kind.gpu_hours for kind in sums.kinds)
        table = Table(title=f"{sums.interruptions} interruptions", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        table.add_column("kind", no_wrap=True)
        for head in ("count", "share", *(("GPU h", "lost") if cost else ()), "again"):
            table.add_column(head, justify="right", no_wrap=True)
        table.add_column("suspects")
        for kind in sums.kinds:
            hours = (gpu_hours(kind.gpu_hours), gpu_hours(kind.lost_gpu_hours)) if cost else ()
            nodes = _suspects(kind.nodes)
            share = f"{100 * kind.share:.1f} %"
            table.add_row(kind.label, str(kind.count), share, *hours, str(kind.requeued), nodes)
        console.print(table)
    for each in sums.quarantines:
        note = f" ({each.outcome.value}{': ' + each.note if each.note else ''})" if each.note else ""
        console.print(f"{each.node}: {each.reason}{note}", markup=False, highlight=False, soft_wrap=True)


def _suspects(nodes: tuple[str, ...]) -> str:
    """Return what a line has room for: the node that is suspected most, and how many more are in `--json`."""
    return " +".join((nodes[0], str(len(nodes) - 1))) if len(nodes) > 1 else "".join(nodes)
