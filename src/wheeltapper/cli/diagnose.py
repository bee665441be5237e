"""``wheeltapper diagnose``: why a job stopped, from log files alone. Works anywhere, with no set-up."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from wheeltapper.cli.common import BAD_INPUT, NOT_FOUND, ConfigOption, JsonOption, told

if TYPE_CHECKING:
    from wheeltapper.catalogue import Catalogue
    from wheeltapper.diagnosis.advice import Action
    from wheeltapper.diagnosis.model import Diagnosis
    from wheeltapper.evidence import Finding
    from wheeltapper.scan.inputs import Input

PROGRESS_FROM = 32 << 20
"""Bytes of input from which a bar is shown: about half a second of work."""


def diagnose(
    paths: Annotated[list[Path], typer.Argument(help="Log files and folders of them; - reads standard input.")],
    window: Annotated[
        float | None,
        typer.Option(min=1.0, help="Minutes before the end in which a node's evidence counts; else as configured."),
    ] = None,
    catalogue: Annotated[
        list[Path] | None, typer.Option(help="A folder with signatures of your own; may be given again.")
    ] = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say why a job stopped: the cause, its evidence, what was rejected, and what to do.

    Kernel logs (dmesg, kern.log, kmsg) count as proof, everything else as what a job says. The answer
    "none/none" means that nothing in the files was interrupted.

    Exit codes: 0 a cause was found, 2 a file or the configuration is wrong, 3 no cause was found.
    """
    import json

    from wheeltapper import config as configuration
    from wheeltapper.catalogue import load
    from wheeltapper.diagnosis.advice import advise
    from wheeltapper.diagnosis.diagnose import diagnose as judge

    with told("diagnose"):
        settings = configuration.load(config).diagnosis
        findings = _gather(paths, load([*settings.catalogue_dirs, *(catalogue or [])]))
    answer = judge(findings, None, window_s=window * 60 if window else settings.window_s)
    action = advise(answer)
    typer.echo(json.dumps(as_record(answer, action), indent=2) if as_json else as_text(answer, action))
    if answer.root is None:
        raise typer.Exit(NOT_FOUND)


def as_record(answer: Diagnosis, action: Action) -> dict[str, Any]:
    """Return *answer* as JSON values: the short answer first, the whole diagnosis after it."""
    from wheeltapper import codec
    from wheeltapper.diagnosis.advice import nothing_happened

    root = answer.root
    cause = {"file": root.evidence.file, "line": root.evidence.line} if root else None
    return {
        "label": "none/none" if nothing_happened(answer) else answer.label,
        "action": action.value,
        "symptom": answer.symptom,
        "cause": cause,
        "diagnosis": codec.dump(answer),
    }


def as_text(answer: Diagnosis, action: Action) -> str:
    """Return *answer* as a person reads it: what, why, on which lines, what else was considered, what to do."""
    from wheeltapper.diagnosis.advice import nothing_happened

    name = "none/none" if nothing_happened(answer) else f"{answer.label} {answer.detail}".strip()
    lines = [name, f"  {answer.sentence}"]
    if answer.chain:
        lines += ["", "Evidence, from the root to the symptom:"]
        lines += [f"  {each.evidence.where}: {each.evidence.text[:160]}" for each in answer.chain]
    if answer.suspects:
        lines += ["", "Suspects:"]
        lines += [f"  {_named(each.node, each.gpu, each.rank)}: {each.reason}" for each in answer.suspects]
    if answer.rejected:
        lines += ["", "Rejected:"]
        lines += [f"  {each.label} ({each.where}): {each.reason}" for each in answer.rejected]
    how_sure = "confirmed by the node" if answer.confirmed else f"confidence {answer.confidence:.1f}"
    lines += ["", f"Suggested action: {action.value} ({how_sure})"]
    return "\n".join(lines)


def _named(node: str | None, gpu: str | None, rank: int | None) -> str:
    parts = [node, f"GPU {gpu}" if gpu else None, f"rank {rank}" if rank is not None else None]
    return " ".join(part for part in parts if part)


def _gather(paths: list[Path], catalogue: Catalogue) -> list[Finding]:
    from wheeltapper.scan.inputs import inputs, read, read_stream

    if Path("-") in paths:
        if len(paths) > 1:
            typer.echo("wheeltapper diagnose: - stands alone: standard input cannot be mixed with files", err=True)
            raise typer.Exit(BAD_INPUT)
        return list(read_stream(sys.stdin.buffer, "stdin", catalogue))
    files = inputs(paths)
    with _progress(files) as advance:
        findings: list[Finding] = []
        for each in files:
            findings += read(each, catalogue)
            advance(each)
    return findings


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
