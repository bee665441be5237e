"""``wheeltapper simulate``: what the policy would have saved, on a trace of faults."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wheeltapper.cli.common import ConfigOption, JsonOption, told

if TYPE_CHECKING:
    from wheeltapper.simulate.compare import Comparison


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
    probation_h: Annotated[float, typer.Option(min=0, help="Hours in which a repaired node is used last.")] = 24.0,
    seeds: Annotated[int, typer.Option(min=1, help="Replays of each line, in different orders of the nodes.")] = 5,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Replay the policy of the configuration on a trace, beside people, timeouts, and an oracle.

    Exit codes: 0 told, 2 the trace or the configuration is wrong.
    """
    import json

    from wheeltapper import codec
    from wheeltapper import config as configuration
    from wheeltapper.errors import WheeltapperError
    from wheeltapper.simulate.compare import compare
    from wheeltapper.simulate.model import Settings
    from wheeltapper.simulate.trace import load

    with told("simulate"):
        job_nodes = -(-gpus // gpus_per_node)
        if job_nodes > nodes:
            raise WheeltapperError(f"a job of {gpus} GPUs needs {job_nodes} nodes, and the trace watches {nodes}")
        found = compare(
            load(trace, nodes),
            Settings(
                job_nodes,
                checkpoint_s=checkpoint_min * 60,
                restart_s=restart_s,
                person_s=person_min * 60,
                probation_s=probation_h * 3600,
            ),
            configuration.load(config).policy,
            range(seeds),
            write_s or [0.0, 60.0, 300.0],
            _tell if sys.stderr.isatty() else lambda _: None,
        )
    if as_json:
        typer.echo(json.dumps(codec.dump(found), indent=2))
    else:
        size = f"{job_nodes * gpus_per_node} GPUs"
        _print(found, f"{size}, {checkpoint_min:g} minutes between checkpoints, {seeds} seeds")


def _tell(what: str) -> None:
    typer.echo(f"\r\x1b[K{what} …", err=True, nl=False)


def _print(found: Comparison, title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if sys.stderr.isatty():
        typer.echo("\r\x1b[K", err=True, nl=False)
    table = Table("", "ETTR", "of the seeds", "stops", "lost h", "noticing h", "waiting h", "asks", "out", title=title)
    for line in found.lines:
        if line is not found.lines[0] and line.strategy == found.lines[0].strategy:
            table.add_section()
        table.add_row(
            f"{line.strategy} [dim]({line.write_s:g} s a checkpoint)[/dim]",
            f"{line.ettr:.4f}",
            f"{line.ettr_low:.4f}-{line.ettr_high:.4f}",
            f"{line.interruptions:.0f}",
            f"{line.lost_hours:.0f}",
            f"{line.noticing_hours:.0f}",
            f"{line.waiting_hours:.0f}",
            f"{line.stopped_for_a_person:.0f}",
            str(line.most_out),
        )
    console.print(table)
    for write_s, ettr in found.closed_form.items():
        console.print(f"Closed form for nodes that fail at random, {write_s:g} s a checkpoint: {ettr:.4f}")
    ours, spared, ahead = found.lines[0], found.without_people, found.foresight
    console.print(
        f"Without what tests of idle nodes found and people did: {spared.ettr:.4f}"
        f" ({spared.ettr_low:.4f}-{spared.ettr_high:.4f}), {spared.interruptions:.0f} stops"
    )
    console.print(
        "Hours lost by cause: " + ", ".join(f"{name} {hours:.0f}" for name, hours in ours.lost_hours_by_label.items())
    )
    console.print(
        f"Repeat offenders, judged forward: at most {ahead.most_share:.1%} of nodes named, {ahead.covered} of"
        f" {ahead.later} later faults on them ({ahead.coverage or 0:.1%}); {ahead.again} of {ahead.flagged} failed"
        f" again within 30 days ({ahead.precision.low:.0%} to {ahead.precision.high:.0%}; any node: {ahead.base:.0%})"
    )
    for each in found.after_repair:
        console.print(
            f"After a repair: {each.again} of {each.repairs} failed again within {each.days:g} days"
            f" ({each.share.value or 0:.1%}; any node: {each.base:.1%})"
        )
