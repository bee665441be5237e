"""``wheeltapper diagnose``: why a job stopped, from files alone. Works anywhere, with no set-up."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from wheeltapper.cli.answer import as_record, as_text
from wheeltapper.cli.common import BAD_INPUT, NOT_FOUND, ConfigOption, JsonOption, told

if TYPE_CHECKING:
    from wheeltapper.catalogue import Catalogue
    from wheeltapper.inputs import Case
    from wheeltapper.scan.inputs import Input

PROGRESS_FROM = 32 << 20
"""Bytes of input from which a bar is shown: about half a second of work."""


def diagnose(  # noqa: PLR0913, PLR0917 - typer's options
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="Files and folders of them, or - for standard input; else the id of a Slurm job, or job/NAME and "
            "pytorchjob/NAME for one of Kubernetes.",
        ),
    ],
    window: Annotated[
        float | None,
        typer.Option(min=1.0, help="Minutes before the end in which a node's evidence counts; else as configured."),
    ] = None,
    catalogue: Annotated[
        list[Path] | None, typer.Option(help="A folder with signatures of your own; may be given again.")
    ] = None,
    namespace: Annotated[str | None, typer.Option(help="The namespace of a job of Kubernetes.")] = None,
    show_timeline: Annotated[
        bool, typer.Option("--timeline", help="Also show all that was found, as it happened.")
    ] = False,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say why a job stopped: the cause, its evidence, what was rejected, and what to do.

    Kernel logs, counters and event logs of the node count as proof, and a scheduler's records as its word; everything
    else is what a job says. The answer "none/none" means that nothing in the files was interrupted.

    Exit codes: 0 a cause was found, 2 a file or the configuration is wrong, 3 no cause was found.
    """
    import json

    from wheeltapper import config as configuration
    from wheeltapper.catalogue import load
    from wheeltapper.diagnosis.advice import advise
    from wheeltapper.diagnosis.diagnose import diagnose as judge
    from wheeltapper.diagnosis.timeline import timeline

    with told("diagnose"):
        settings = configuration.load(config).diagnosis
        case = _gather(paths, namespace, load([*settings.catalogue_dirs, *(catalogue or [])]))
    answer = judge(case.findings, case.attempt, window_s=window * 60 if window else settings.window_s)
    action = advise(answer)
    events = timeline(case.findings, answer) if show_timeline else ()
    typer.echo(json.dumps(as_record(answer, action, events), indent=2) if as_json else as_text(answer, action, events))
    if answer.root is None:
        raise typer.Exit(NOT_FOUND)


def _gather(paths: list[Path], namespace: str | None, catalogue: Catalogue) -> Case:
    from wheeltapper.inputs import conclude
    from wheeltapper.scan.inputs import inputs, read, read_stream

    if len(paths) == 1 and not paths[0].exists() and (case := _live(str(paths[0]), namespace, catalogue)):
        return case
    if Path("-") in paths:
        if len(paths) > 1:
            typer.echo("wheeltapper diagnose: - stands alone: standard input cannot be mixed with files", err=True)
            raise typer.Exit(BAD_INPUT)
        return conclude([read_stream(sys.stdin.buffer, "stdin", catalogue)])
    files = inputs(paths)
    readings = []
    with _progress(files) as advance:
        for each in files:
            readings.append(read(each, catalogue))
            advance(each)
    return conclude(readings, [each.name for each in files])


def _live(asked: str, namespace: str | None, catalogue: Catalogue) -> Case | None:
    """Return the case of a job that is *asked* for by id or name; None when that names no job but a path."""
    from wheeltapper.cli import live

    kind, _, name = asked.partition("/")
    if kind in {"job", "pytorchjob"} and name:
        return live.kubernetes_job(name, namespace, catalogue)
    return live.slurm_job(asked, catalogue) if live.SLURM_ID.match(asked) else None


@contextmanager
def _progress(files: list[Input]) -> Iterator[Callable[[Input], None]]:
    """Show a bar on stderr for large input at a terminal; what is yielded says that a file is done."""
    total = sum(each.size for each in files)
    if total < PROGRESS_FROM or not sys.stderr.isatty():
        yield lambda _done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("reading", total=total)
        yield lambda done: bar.advance(task, done.size)


if __name__ == "__main__":
    typer.run(diagnose)
