"""``wheeltapper report``: which kinds of interruption cost most, and which nodes were taken out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from wheeltapper.cli.common import ConfigOption, JsonOption, told

if TYPE_CHECKING:
    from wheeltapper.ledger.totals import Totals


def report(
    days: Annotated[float, typer.Option(min=0.01, help="How many days back.")] = 30.0,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Count the interruptions of the last days by kind, and list the nodes that were taken out.

    Exit codes: 0 told, 2 the configuration or the ledger is wrong.
    """
    import json
    import time

    from wheeltapper import codec
    from wheeltapper import config as configuration
    from wheeltapper.ledger.store import Ledger
    from wheeltapper.ledger.totals import totals

    now = time.time()
    with told("report"):
        ledger = Ledger.of(configuration.load(config), read_only=True)
        sums = totals(ledger, now - days * 86_400, now)
        ledger.close()
    if as_json:
        typer.echo(json.dumps(codec.dump(sums), indent=2))
        return
    _print(sums, days)


def _print(sums: Totals, days: float) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    if not sums.interruptions:
        console.print(f"No interruption in the last {days:g} days.")
    else:
        table = Table("kind", "count", "share", "run again", "suspects", title=f"{sums.interruptions} interruptions")
        for kind in sums.kinds:
            share = f"{100 * kind.share:.1f} %"
            table.add_row(kind.label, str(kind.count), share, str(kind.requeued), ",".join(kind.nodes))
        console.print(table)
    for each in sums.quarantines:
        note = f" ({each.outcome.value}{': ' + each.note if each.note else ''})" if each.note else ""
        console.print(f"{each.node}: {each.reason}{note}", markup=False, highlight=False, soft_wrap=True)
