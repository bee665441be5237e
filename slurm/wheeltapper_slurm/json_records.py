"""A job in the words of ``scontrol show job --json``: there, no text of the user's can be taken for a field.

Releases write the same value in different forms (``"FAILED"`` or ``["FAILED", "COMPLETING"]``, ``7`` or
``{"set": true, "infinite": false, "number": 7}``), so each value is taken in any of them.
"""

from __future__ import annotations

import json
from typing import Any

from wheeltapper_slurm import hostlist
from wheeltapper_slurm.records import JobRecord

_FLAGS = (
    *("COMPLETING", "EXPEDITING", "REQUEUE_HOLD", "SPECIAL_EXIT", "REQUEUE_FED", "CONFIGURING", "RESIZING"),
    *("STAGE_OUT", "SIGNALING", "STOPPED", "REVOKED"),
)
"""Flags beside a base state that ``scontrol -o`` prints in its place; the first of them that is set counts."""


def job(text: str, asked: str) -> JobRecord | None:
    """Return the job *asked* for, ``12`` or ``12_3``, in what ``scontrol show job --json`` prints; None without one.

    Asked for an array or for one of its tasks, Slurm shows every task in no order.

    Raises:
        ValueError: the text is not such a document.
    """
    document = json.loads(text)
    entries = document.get("jobs") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not all(isinstance(each, dict) and "job_id" in each for each in entries):
        raise ValueError("this is no list of jobs")
    jobs = [of(each) for each in entries if asked in {str(each["job_id"]), _task(each)}]
    # The task that bears the array's number has that number and its own name.
    return next((each for each in jobs if each.id == asked), jobs[0] if jobs else None)


def of(entry: dict[str, Any]) -> JobRecord:
    """Return the job in one *entry*.

    Raises:
        ValueError: it has no state.
    """
    states = _states(entry.get("job_state"))
    if not states:
        raise ValueError(f"job {entry.get('job_id')} has no state")
    code, signal = _exit(entry.get("exit_code"))
    leader = _number(entry.get("het_job_id"))
    return JobRecord(
        id=str(entry["job_id"]),
        state=next((flag for flag in _FLAGS if flag in states), states[0]),
        reason=_reason(entry),
        exit_code=code,
        signal=signal,
        start=_time(entry.get("start_time")),
        end=_time(entry.get("end_time")),
        batch=bool(entry.get("batch_flag")),
        requeueable=bool(entry.get("requeue")),
        restarts=_number(entry.get("restart_cnt")) or 0,
        batch_host=str(entry.get("batch_host") or "") or None,
        priority=_priority(entry.get("priority")),
        excluded=hostlist.expand(str(entry.get("excluded_nodes") or "")),
        admin_comment=str(entry.get("admin_comment") or ""),
        nodes=_number(entry.get("node_count")) or 0,
        array=_task(entry),
        het_leader=str(leader) if leader else "",
        partitions=tuple(filter(None, str(entry.get("partition") or "").split(","))),
        expedited="EXPEDITING" in states or "EXPEDITED_REQUEUE" in (entry.get("flags") or []),
        uid=_number(entry.get("user_id")),
        node_list=str(entry.get("nodes") or ""),
        ended_as=states[0] if "COMPLETING" in states[1:] else "",
        comment=str(entry.get("comment") or ""),
    )


def _task(entry: dict[str, Any]) -> str:
    """Return ``12_3`` for a task of an array."""
    array, task = _number(entry.get("array_job_id")), _number(entry.get("array_task_id"))
    return f"{array}_{task}" if array and task is not None else ""


def _states(value: Any) -> list[str]:
    return [str(each).upper() for each in (value if isinstance(value, list) else [value]) if each]


def _reason(entry: dict[str, Any]) -> str:
    # Whose hold it is, only the description tells: the reason of every hold is JobHeldUser or JobHeldAdmin. scontrol -o
    # prints it in one word.
    reason = str(entry.get("state_description") or entry.get("state_reason") or "").replace(" ", "_")
    return "" if reason == "None" else reason


def _number(value: Any) -> int | None:
    """Return a whole number in any of its forms; None where none is set."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") else None
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _priority(value: Any) -> int:
    """Return the priority; one that is not told is no hold."""
    number = _number(value)
    return 1 if number is None else number


def _time(value: Any) -> float | None:
    seconds = _number(value)
    return float(seconds) if seconds else None


def _exit(value: Any) -> tuple[int, int]:
    """Return exit code and signal: from 22.05 a wait status, later each by its name."""
    if isinstance(value, dict) and "return_code" in value:
        signal = value.get("signal") or {}
        return _number(value["return_code"]) or 0, _number(signal.get("id", signal.get("signal_id"))) or 0
    status = _number(value) or 0
    return status >> 8, status & 0x7F
