"""Taking a line of a job's log apart: colours, prefixes of launchers, and ranks."""

from __future__ import annotations

import re

_COLOURS = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)|[@-Z\\^_])?")
"""A title that does not end within its bound is no title: it would take the rest of the line with it."""

_PREFIX = re.compile(
    r"""
      \[rank[ ]?(?P<torch>\d+)\]:?[ ]?                                    # PyTorch since 2.2
    | \[\d+,(?P<mpi>\d+)\]<std(?:err|out)>:(?:[ ](?![ ]))?                # mpirun --tag-output
    | \[default\d{1,4}\]:(?:[ ](?![ ]))?                                  # torchrun --tee, which counts within a node
    | [ ]{0,5}(?P<srun>\d{1,6}):[ ]                                       # srun --label
    | \((?:[A-Za-z_][\w.:-]*(?:\([^()]{0,40}\))?[ ])?(?:rank=\d+[ ])?pid=\d+(?:,[ ]ip=[\w.:]+)?\)[ ]  # Ray's actors
    | \((?:raylet(?:,[ ]ip=[\w.:]+)?|autoscaler[ ]\+\w+)\)[ ]                           # Ray's own
    | [ |]*\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d)?(?:[ ]std(?:out|err)[ ][FP])?(?:[ ]?\|)?[ ]  # containers
    """,
    re.VERBOSE,
)

_FOREIGN = re.compile(
    r"""
      # syslog's and horovodrun's time
      (?:\w{3}[ ])?\w{3}[ ]{1,2}\d{1,2}[ ]\d\d:\d\d:\d\d(?:[ ]\d{4})?(?:[ ](?=\S))?
      (?:[\w.-]{1,64}[ ][\w./-]{1,32}(?:\[\d+\])?:[ ])?
      # a time
    | \[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?[ ]
      # kubectl logs --prefix, and stern
    | \[pod/[\w./-]{1,160}\][ ]
    | [a-z0-9][a-z0-9.-]{0,80}-\d+[ ](?:pytorch|tensorflow|trainer|train|main|master|worker|launcher|ray-\w+)[ ]
      # docker compose, SageMaker and its mpirun, horovodrun
    | [\w.-]{1,64}[ ]{0,20}\|[ ]
    | \[\d+(?:,[\w.:,-]{1,80})?\]<std(?:err|out)>:
    | std(?:err|out):[ ]
      # a program's own: "Rank 0: ", "[0] ", "[worker-1]:", "[gpu07:3] "; not UCX's [host:pid:0:tid], which pads
    | \[?[Rr]ank[ :=]{0,2}(?P<rank>\d{1,6})\]?:?[ ]
    | \[(?=[^\]]*\d)(?![^\]:]*:\d+:)[\w.:,/=-]{1,80}\]:?(?:[ ](?![ ]))?
      # SkyPilot
    | \((?:[\w.-]{1,64},[ ]){0,3}(?:rank=(?P<sky>\d{1,6}),[ ])?pid=\d+(?:,[ ]ip=[\w.:]+)?\)[ ]
      # pdsh, clush, the hosts of DeepSpeed
    | (?!python)(?=[\w.-]*\d)[A-Za-z0-9][\w.-]{0,62}:[ ]
      # vLLM, on each line of a traceback
    | (?:ERROR|CRITICAL)[ ]\d\d-\d\d[ ]\d\d:\d\d:\d\d[ ]\[[\w./]{1,80}:\d+\][ ]
      # torchrun's report of a rank
    | [ ]{2}(?=(?:\w+\.)*[A-Z]\w*(?:Error|Exception)\b)
    """,
    re.VERBOSE,
)
"""What other launchers and collectors of logs put in front. Much looks like them, so they are tried last."""

_RANK_IN_NAME = re.compile(r"(?:^|[/._-])rank[._-]?(\d{1,6})(?=[/._-]|$)", re.IGNORECASE)

PREFIXES_MAX = 4
"""Prefixes that are taken off one line: a container runtime's, srun's, a rank's, and one to spare."""

ECHO_INDENT = 4
"""Columns from which a line is source code in a traceback or a value in a dump: text about things, no evidence."""


def printable(raw: bytes) -> str:
    """Return the text of a piece of a log without colours and NUL; bytes that are no UTF-8 are replaced."""
    text = raw.decode("utf-8", "replace").replace("\x00", "")
    return _COLOURS.sub("", text) if "\x1b" in text else text


def without_prefix(text: str) -> tuple[str, int | None]:
    """Return *text* without what launchers put in front, and the rank that they name.

    srun's own label counts tasks, which may be whole nodes: any other name of the rank is believed before it.
    """
    rank: int | None = None
    for _ in range(PREFIXES_MAX):
        found = _PREFIX.match(text)
        if not found:
            break
        text = text[found.end() :]
        named = found["torch"] or found["mpi"] or found["srun"]
        if named is not None:
            rank = int(named)
    return text, rank


def without_foreign_prefix(text: str) -> tuple[str, int | None]:
    """Return *text* without what might be a prefix of a launcher or collector of logs, and the rank that it names."""
    rank: int | None = None
    for _ in range(PREFIXES_MAX):
        found = _FOREIGN.match(text)
        if not found or not found.end():
            break
        text = text[found.end() :]
        named = found["rank"] or found["sky"]
        if named is not None:
            rank = int(named)
    return text, rank


def is_echo(text: str) -> bool:
    """True for source code echoed in a traceback and for the inside of a dump: indented, so nobody's message."""
    return text[:ECHO_INDENT].isspace()


def rank_in_name(name: str) -> int | None:
    """Return the rank that a file's *name* tells, such as ``train.rank3.log`` or ``logs/rank_0007/stderr``.

    A bare number tells none: torchrun's folders count the ranks of one node, and Slurm's %t may count nodes.
    """
    found = _RANK_IN_NAME.findall(name)
    return int(found[-1]) if found else None
