"""A job that is asked for by its id or name, where the scheduler's own commands are there to tell of it."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
from pathlib import Path

from wheeltapper.catalogue import Catalogue
from wheeltapper.errors import SchedulerError
from wheeltapper.inputs import Case, Reading, conclude
from wheeltapper.scan.inputs import Input, read, read_stream

SLURM_ID = re.compile(r"^\d+(?:_\d+)?$")

DEADLINE_S = 30.0
"""Seconds that one command of a scheduler may take: a busy slurmctld answers within its message timeout of 10 s."""

SACCT_FIELDS = "JobID,JobName,State,ExitCode,Start,End,NodeList,Reason"

_ENVIRONMENT = {"SLURM_TIME_FORMAT": "%Y-%m-%dT%H:%M:%S%z"}
"""With the offset, so that times can be compared with those of logs."""

_JOB_KINDS = "pytorchjobs.kubeflow.org,jobs.batch"
_JOB_LABELS = ("training.kubeflow.org/job-name", "batch.kubernetes.io/job-name")


def slurm_job(job: str, catalogue: Catalogue) -> Case:
    """Return the case of Slurm's *job*: its record, its nodes' records, and its logs where they can be read here.

    Raises:
        SchedulerError: neither scontrol nor sacct knows the job, or neither is installed.
    """
    records = [
        ("scontrol-show-job", _said("scontrol", "show", "job", job)),
        ("sacct", _said("sacct", "-D", "-P", "-j", job, "-o", SACCT_FIELDS)),
    ]
    readings = [_of_text(name, text, catalogue) for name, text in records if text]
    attempt = conclude(readings).attempt
    if attempt is None:
        raise SchedulerError(f"Slurm knows no job {job} that has ended; are scontrol and sacct on the PATH here?")
    names = [name for name, _text in records]
    if attempt.nodes and (text := _said("scontrol", "show", "node", ",".join(attempt.nodes))):
        readings.append(_of_text("scontrol-show-node", text, catalogue))
    for path in map(Path, attempt.logs):
        if path.is_file() and os.access(path, os.R_OK):
            readings.append(read(Input(path, str(path), path.stat().st_size), catalogue, None))
            names.append(str(path))
    return conclude(readings, names)


def kubernetes_job(name: str, namespace: str | None, catalogue: Catalogue) -> Case:
    """Return the case of the job *name*: its object, its pods, their events and logs.

    Raises:
        SchedulerError: kubectl is not installed, or knows no such job.
    """
    where = ["-n", namespace] if namespace else []
    owner = _said("kubectl", "get", _JOB_KINDS, name, "--ignore-not-found", "-o", "json", *where)
    pods = [_said("kubectl", "get", "pods", "-l", f"{label}={name}", "-o", "json", *where) for label in _JOB_LABELS]
    if not any(_names(text) for text in (owner, *pods)):
        raise SchedulerError(f"Kubernetes knows no job {name} here; name its namespace with --namespace")
    events = _said("kubectl", "get", "events", "-o", "json", *where)
    texts = [("job.json", owner), ("pods.json", pods[0]), ("pods-batch.json", pods[1]), ("events.json", events)]
    readings = [_of_text(title, text, catalogue) for title, text in texts if text]
    for pod in dict.fromkeys(each for text in pods for each in _names(text)):
        log = _said("kubectl", "logs", pod, "--all-containers", "--timestamps", *where)
        readings.append(_of_text(f"{pod}.log", log, catalogue))
    return conclude(readings)


def _names(text: str) -> list[str]:
    """Return the names of the objects in what kubectl printed, one object or a list of them."""
    content = json.loads(text) if text.strip() else {}
    members = content.get("items", [content] if content else [])
    return [each["metadata"]["name"] for each in members]


def _of_text(name: str, text: str, catalogue: Catalogue) -> Reading:
    return read_stream(io.BytesIO(text.encode()), name, catalogue, None)


def _said(*command: str) -> str:
    """Return what *command* printed; nothing when it is not installed, fails or does not answer in time."""
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            timeout=DEADLINE_S,
            env={**os.environ, **_ENVIRONMENT},
            stdin=subprocess.DEVNULL,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else ""
