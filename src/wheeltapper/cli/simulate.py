"""``wheeltapper simulate``: what the policy would have saved, on a trace of faults."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wheeltapper.cli.common import ConfigOption, JsonOption, told

if TYPE_CHECKING:
    from rich.table import Table

    from wheeltapper.simulate.compare import Comparison, Line
    from wheeltapper.simulate.model import Settings


def simulate(  # noqa: PLR0913, PLR0917 - each is an option of the command line
    trace: Annotated[Path, typer.Argument(help="Faults in the format of InfiniteHBD-Trace (fault_trace.json).")],
    nodes: Annotated[int, typer.Option(min=1, help="Nodes that the trace watched, healthy ones among them.")] = 400,
    gpus: Annotated[int, typer.Option(min=1, help="GPUs of the job.")] = 2560,
    gpus_per_node: Annotated[int, typer.Option(min=1, help="GPUs of a node.")] = 8,
    checkpoint_min: Annotated[float, typer.Option(min=1, help="Minutes of work between two checkpoints.")] = 60.0,
    write_s: Annotated[
        list[float] | None, typer.Option(min=0, help="Seconds that a checkpoint takes; may be given several times.")
    ] = None,
    restart_s: Annotated[float, typer.Option(min=0, help="Seconds to schedule, start and load a checkpoint.")] = 300.0,
    person_min: Annotated[float, typer.Option(min=0, help="Minutes until a person who is asked has answered.")] = 30.0,
    seeds: Annotated[int, typer.Option(min=1, help="Replays of each line, in different orders of the nodes.")] = 5,
    html: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write a page with plots into this file, too.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Replay the policy of the configuration on a trace, beside people, timeouts, and an oracle.

    Exit codes: 0 told, 2 the trace or the configuration is wrong.
    """
    import json

    from wheeltapper import codec
    from wheeltapper.simulate.model import Settings

    job_nodes = -(-gpus // gpus_per_node)
    settings = Settings(
        job_nodes,
        checkpoint_s=checkpoint_min * 60,
        restart_s=restart_s,
        person_s=person_min * 60,
    )
    with told("simulate"):
        found = _compared(trace, nodes, settings, write_s or [0.0, 60.0, 300.0], seeds, config)
        title = f"{gpus} GPUs, {checkpoint_min:g} minutes between checkpoints, {seeds} seeds"
        if html is not None:
            _write_page(found, title, html)
    if as_json:
        typer.echo(json.dumps(codec.dump(found), indent=2))
        return
    _print(found, title)


def _compared(
    trace: Path, nodes: int, settings: Settings, writes_s: list[float], seeds: int, config: Path | None
) -> Comparison:
    from wheeltapper import config as configuration
    from wheeltapper.errors import WheeltapperError
    from wheeltapper.simulate.compare import compare
    from wheeltapper.simulate.trace import load

    if settings.job_nodes > nodes:
        raise WheeltapperError(f"the job needs {settings.job_nodes} nodes, and the trace watches {nodes}")
    policy = configuration.load(config).policy
    progress = _tell if sys.stderr.isatty() else lambda _: None
    return compare(load(trace, nodes), settings, policy, range(seeds), writes_s, progress)


def _write_page(found: Comparison, title: str, path: Path) -> None:
    from wheeltapper.errors import WheeltapperError
    from wheeltapper.report.simulated import page

    try:
        path.write_text(page(found, title, list(_notes(found))), encoding="utf-8")
    except OSError as error:
        raise WheeltapperError(f"--html: {path} cannot be written: {error.strerror}") from error


def _tell(what: str) -> None:
    typer.echo(f"\r\x1b[K{what} …", err=True, nl=False)


def _print(found: Comparison, title: str) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    if sys.stderr.isatty():
        typer.echo("\r\x1b[K", err=True, nl=False)
    console.print(_table(found, title))
    for note in _notes(found):
        console.print(note)


def _table(found: Comparison, title: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(
        title=title, box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), caption="hours; asks: of a person; out: nodes"
    )
    table.add_column("")
    for head in ("ETTR", "±", "stops", "lost", "unseen", "wait", "asks", "out"):
        table.add_column(head, justify="right", no_wrap=True)
    write_s = None
    for line in found.lines:
        if line.write_s != write_s:
            write_s = line.write_s
            table.add_section()
            table.add_row(f"[dim]{write_s:g} s a checkpoint[/dim]")
        table.add_row(*_row(line))
    table.add_section()
    table.add_row(f"[dim]every entry ends the job, {found.every_entry[0].write_s:g} s[/dim]")
    for line in found.every_entry:
        table.add_row(*_row(line))
    return table


def _row(line: Line) -> tuple[str, ...]:
    return (
        line.strategy,
        f"{line.ettr:.4f}",
        f"{(line.ettr_high - line.ettr_low) / 2:.4f}",
        f"{line.interruptions:.0f}",
        f"{line.lost_hours:.0f}",
        f"{line.noticing_hours:.0f}",
        f"{line.waiting_hours:.0f}",
        f"{line.stopped_for_a_person:.0f}",
        str(line.most_out),
    )


def _notes(found: Comparison) -> Iterator[str]:
    """Yield what stands below the table, a sentence each."""
    ours, worst, ahead = found.lines[0], found.every_entry[0], found.foresight
    for write_s, ettr in found.closed_form.items():
        yield f"Closed form for nodes that fail at random, {write_s:g} s a checkpoint: {ettr:.4f}"
    yield (
        "If every entry ended the job, alarms of spare parts and tests of idle nodes too:"
        f" {worst.ettr:.4f} ({worst.ettr_low:.4f}-{worst.ettr_high:.4f}), {worst.interruptions:.0f} stops"
    )
    yield "Hours lost by cause: " + ", ".join(f"{name} {hours:.0f}" for name, hours in ours.lost_hours_by_label.items())
    yield (
        f"Repeat offenders, judged forward: at most {ahead.most_share:.1%} of nodes named, {ahead.covered} of"
        f" {ahead.later} later faults on them ({ahead.coverage or 0:.1%}); {ahead.again} of {ahead.flagged} failed"
        f" again within 30 days ({ahead.precision.low:.0%} to {ahead.precision.high:.0%}; any node: {ahead.base:.0%})"
    )
    for each in found.after_repair:
        yield (
            f"After a repair: {each.again} of {each.repairs} failed again within {each.days:g} days"
            f" ({each.share.value or 0:.1%}; any node: {each.base:.1%})"
        )
