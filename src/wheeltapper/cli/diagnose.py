"""``wheeltapper diagnose``: why a job stopped, from files alone. Works anywhere, with no set-up.

Its arguments are read by argparse, which starts in a tenth of typer's time: this command is run by hand, in loops over
thousands of jobs, and at the end of each job's own log.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from wheeltapper.cli.exit_codes import BAD_INPUT, NOT_FOUND
from wheeltapper.errors import WheeltapperError

if TYPE_CHECKING:
    from wheeltapper.catalogue import Catalogue
    from wheeltapper.inputs import Case
    from wheeltapper.scan.inputs import Input

PROGRESS_FROM = 32 << 20
"""Bytes of input from which a bar is shown: about half a second of work."""

SUMMARY = "Say why a job stopped: the cause, its evidence, what was rejected, and what to do."

_DETAILS = """\
Kernel logs, counters and event logs of the node count as proof, and a scheduler's
records as its word; everything else is what a job says. The answer "none/none"
means that nothing in the files was interrupted.

exit codes:
  0  a cause was found
  2  a file or the configuration is wrong
  3  no cause was found
"""


def main(arguments: Sequence[str]) -> int:
    """Run the command with *arguments* and return its exit code."""
    asked = _parser().parse_args(arguments)
    try:
        code = _diagnose(asked)
        sys.stdout.flush()
    except WheeltapperError as error:
        print(f"wheeltapper diagnose: {error}", file=sys.stderr)
        return BAD_INPUT
    except BrokenPipeError:
        # `head` has seen enough. What is still in the buffer must not fail again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="wheeltapper diagnose",
        description=SUMMARY,
        epilog=_DETAILS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "paths",
        nargs="+",
        type=Path,
        metavar="PATH",
        help="files and folders of them, or - for standard input; else the id of a Slurm job, or job/NAME and "
        "pytorchjob/NAME for one of Kubernetes",
    )
    add(
        "--window",
        type=_minutes,
        metavar="MINUTES",
        help="how far before the end a node's evidence counts; else as configured",
    )
    add(
        "--catalogue",
        type=Path,
        action="append",
        default=[],
        metavar="FOLDER",
        help="a folder with signatures of your own; may be given again",
    )
    add("--namespace", metavar="NAME", help="the namespace of a job of Kubernetes")
    add("--timeline", action="store_true", help="also show all that was found, as it happened")
    add(
        "--config",
        type=Path,
        metavar="FILE",
        help="the configuration file; else WHEELTAPPER_CONFIG, else /etc/wheeltapper",
    )
    add("--json", action="store_true", help="print JSON for programs instead of text for people")
    return parser  # fmt: skip


def _minutes(text: str) -> float:
    minutes = float(text)
    if not minutes >= 1:
        raise argparse.ArgumentTypeError("it is at least 1")
    return minutes


def _diagnose(asked: argparse.Namespace) -> int:
    import json

    from wheeltapper.catalogue import load
    from wheeltapper.cli.answer import as_record, as_text
    from wheeltapper.cli.settings import diagnosis_settings
    from wheeltapper.diagnosis.advice import advise
    from wheeltapper.diagnosis.diagnose import diagnose
    from wheeltapper.diagnosis.timeline import timeline
    from wheeltapper.labels import UNKNOWN

    settings = diagnosis_settings(asked.config)
    case = _gather(asked.paths, asked.namespace, load([*settings.catalogue_dirs, *asked.catalogue]))
    window_s = asked.window * 60 if asked.window else settings.window_s
    answer = diagnose(case.findings, case.attempt, window_s=window_s)
    action = advise(answer)
    events = timeline(case.findings, answer) if asked.timeline else ()
    print(json.dumps(as_record(answer, action, events), indent=2) if asked.json else as_text(answer, action, events))
    return NOT_FOUND if answer.label == UNKNOWN else 0


def _gather(paths: list[Path], namespace: str | None, catalogue: Catalogue) -> Case:
    from wheeltapper.inputs import conclude
    from wheeltapper.scan.inputs import inputs, read, read_stream

    if len(paths) == 1 and not paths[0].exists() and (case := _live(str(paths[0]), namespace, catalogue)):
        return case
    if Path("-") in paths:
        if len(paths) > 1:
            raise WheeltapperError("- stands alone: standard input cannot be mixed with files")
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
    sys.exit(main(sys.argv[1:]))
