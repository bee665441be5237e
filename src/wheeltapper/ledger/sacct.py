"""The time before us, from Slurm's own accounting: what ``sacct`` prints as attempts. Pure.

Asked for as ``SLURM_TIME_FORMAT=%s sacct --allusers --duplicates --allocations --parsable2 --format=…``, with
:data:`FIELDS`, or as ``sacct --json``. With ``--duplicates`` each run of a job that was requeued has a record.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from wheeltapper.attempt import Attempt, Ending
from wheeltapper.errors import WheeltapperError
from wheeltapper.inputs.judging.slurm import ending, exact_time, nodes

FIELDS = "JobIDRaw,JobID,User,Partition,State,ExitCode,Start,End,NodeList,AllocTRES,FailedNode,Reason,JobName"
"""A job's name is its user's choice and may hold the bar that parts the cells: it stands last."""

NEEDED = ("JobIDRaw", "State", "Start", "End", "NodeList")

_GPUS = re.compile(r"(?:^|,)gres/gpu=(\d+)")
_GPUS_OF_A_TYPE = re.compile(r"(?:^|,)gres/gpu:[^=,]+=(\d+)")
_STEP = re.compile(r"\.\w+$")


def attempts(text: str, name: str) -> Iterator[Attempt]:
    """Yield the attempts in *text* that have run and ended, in its order; *name* is the file's name in errors.

    Raises:
        WheeltapperError: the text is not what sacct prints, lacks a field, or has times without a zone.
    """
    if text.lstrip().startswith("{"):
        yield from _of_json(text, name)
    else:
        yield from _of_table(text, name)


def _of_table(text: str, name: str) -> Iterator[Attempt]:
    lines = text.splitlines()
    head = lines[0].split("|") if lines else []
    missing = [field for field in NEEDED if field not in head]
    if missing:
        raise WheeltapperError(
            f"{name}:1: no {', '.join(missing)}; ask for: SLURM_TIME_FORMAT=%s sacct --allusers --duplicates"
            f" --allocations --parsable2 --format={FIELDS}"
        )
    for number, line in enumerate(lines[1:], start=2):
        cells = line.split("|", maxsplit=len(head) - 1)
        # Steps are parts of a job; a line that is too short is the rest of a job's name with a line end in it.
        if len(cells) < len(head) or _STEP.search(cells[head.index("JobIDRaw")]):
            continue
        found = _of_cells(dict(zip(head, cells, strict=True)), f"{name}:{number}")
        if found is not None:
            yield found


def _of_cells(cells: Mapping[str, str], where: str) -> Attempt | None:
    how = ending(cells["State"])
    start, end = _moment(cells["Start"], where), _moment(cells["End"], where)
    if how is None or start is None or end is None:
        return None
    code, _, signal = cells.get("ExitCode", "").partition(":")
    return Attempt(
        key=_key(cells.get("SLUID", ""), cells["JobIDRaw"], start),
        job=cells.get("JobID") or cells["JobIDRaw"],
        nodes=nodes(cells["NodeList"]),
        ending=how,
        exit_code=int(code) if code.isdigit() else 0,
        signal=int(signal) if signal.isdigit() else 0,
        reason=_said(cells.get("Reason", "")),
        failed_node=_said(cells.get("FailedNode", "")) or None if how is Ending.NODE_FAIL else None,
        name=cells.get("JobName", ""),
        user=cells.get("User", ""),
        partition=cells.get("Partition", ""),
        start=start,
        end=end,
        gpus=gpus(cells.get("AllocTRES", "")),
    )


def gpus(tres: str) -> int:
    """Return the GPUs in Slurm's list of resources *tres* (``cpu=8,gres/gpu=4,node=2``); 0 when it names none."""
    whole = _GPUS.search(tres)
    return int(whole[1]) if whole else sum(int(count) for count in _GPUS_OF_A_TYPE.findall(tres))


def _key(sluid: str, job: str, start: float) -> str:
    """Return the attempt's identity as the controller service makes it, so that nothing is recorded twice."""
    return sluid or f"{job}@{int(start)}"


def _moment(text: str, where: str) -> float | None:
    if text in {"", "Unknown", "None"}:
        return None
    if text.isdigit():
        return float(text)
    exact = exact_time(text)
    if exact is None:
        raise WheeltapperError(f"{where}: the time {text} names no zone; set SLURM_TIME_FORMAT=%s for sacct")
    return exact


def _said(text: str) -> str:
    return "" if text in {"None", "None assigned", "(null)", "Unknown"} else text


def _of_json(text: str, name: str) -> Iterator[Attempt]:
    try:
        jobs = json.loads(text)["jobs"]
    except (ValueError, KeyError) as error:
        raise WheeltapperError(f"{name}: this is no output of `sacct --json`: {error}") from error
    for number, job in enumerate(jobs):
        try:
            found = _of_object(job)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise WheeltapperError(f"{name}: jobs[{number}] is no job of `sacct --json`: {error!r}") from error
        if found is not None:
            yield found


def _of_object(job: Mapping[str, Any]) -> Attempt | None:
    # Between releases, a state became a list and a number an object {"set": …, "number": …}.
    state = job["state"]["current"]
    how = ending(state[0] if isinstance(state, list) else state)
    start, end = _number(job["time"]["start"]), _number(job["time"]["end"])
    if how is None or not start or not end:
        return None
    array, code = job.get("array") or {}, job.get("exit_code") or {}
    task = array.get("task_id")
    signal = code.get("signal") or {}
    return Attempt(
        key=_key(str(job.get("sluid") or ""), str(job["job_id"]), start),
        job=f"{array['job_id']}_{_number(task)}" if array.get("job_id") and _is_set(task) else str(job["job_id"]),
        nodes=nodes(job.get("nodes") or ""),
        ending=how,
        exit_code=_number(code.get("return_code")),
        signal=_number(signal.get("id", signal.get("signal_id"))),
        reason=_said(job["state"].get("reason") or ""),
        failed_node=_said(job.get("failed_node") or "") or None if how is Ending.NODE_FAIL else None,
        name=job.get("name") or "",
        user=job.get("user") or "",
        partition=job.get("partition") or "",
        start=float(start),
        end=float(end),
        gpus=_gpus_of(job),
    )


def _gpus_of(job: Mapping[str, Any]) -> int:
    allocated = (job.get("tres") or {}).get("allocated") or []
    counts = {each.get("name") or "": _number(each.get("count")) for each in allocated if each.get("type") == "gres"}
    if "gpu" in counts:
        return counts["gpu"]
    return sum(count for name, count in counts.items() if name.startswith("gpu:"))


def _is_set(value: Any) -> bool:
    return bool(value.get("set")) if isinstance(value, Mapping) else value is not None


def _number(value: Any) -> int:
    if isinstance(value, Mapping):
        return int(value.get("number") or 0) if value.get("set") else 0
    return int(value or 0)
