"""Objects of a Kubernetes API server as ``kubectl get -o json`` or ``-o yaml`` prints them, alone or in lists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from wheeltapper.catalogue import Catalogue
from wheeltapper.evidence import Finding, Source
from wheeltapper.inputs.judging.kubernetes import EXITED, rule_for
from wheeltapper.inputs.model import Document, Reader, Reading
from wheeltapper.inputs.naming import moment
from wheeltapper.scan.finding import finding

if TYPE_CHECKING:
    from wheeltapper.inputs.tree import Item

_OURS = re.compile(r"""^\s*(?:\{\s*)?["']?apiVersion["']?\s*:""", re.MULTILINE)
_CUT = re.compile(
    r"""^\s*(?:\{\s*)?["']?kind["']?\s*:\s*["']?(?:Pod|Node|Event|PyTorchJob|MPIJob|JobSet|Job|TrainJob|RayJob|Workload)\b""",
    re.MULTILINE,
)
"""An object whose first line was cut off: people leave it out when they shorten what they show."""

_JOB_LABELS = (
    "training.kubeflow.org/job-name",
    "batch.kubernetes.io/job-name",
    "job-name",
    "jobset.sigs.k8s.io/jobset-name",
)
_JOB_KINDS = frozenset({"PyTorchJob", "MPIJob", "TFJob", "Job", "JobSet", "TrainJob", "RayJob"})


def _recognises(document: Document) -> bool:
    if _OURS.search(document.head):
        return "kind" in document.head
    return bool(_CUT.search(document.head)) and "metadata" in document.head


def _read(document: Document, catalogue: Catalogue) -> Reading:
    from wheeltapper.inputs.tree import items  # noqa: PLC0415 - PyYAML costs 20 ms, and few cases hold objects

    findings: list[Finding] = []
    jobs: list[str] = []
    places: list[tuple[str, str]] = []
    for item in items(document):
        kind, name = item.text("kind"), item.text("metadata", "name")
        jobs += _jobs(item, kind, name)
        if kind == "Pod":
            findings += _of_pod(item, catalogue)
            places.append((name, item.text("spec", "nodeName")))
        elif kind == "Event":
            findings += _of_event(item)
        elif kind == "Node":
            findings += _of_node(item, name)
        else:
            findings += _of_conditions(item, f"{kind}/{name}".lower())
    return Reading(findings=tuple(findings), jobs=tuple(jobs), places=tuple(place for place in places if all(place)))


def _jobs(item: Item, kind: str, name: str) -> Iterator[str]:
    if kind in _JOB_KINDS:
        yield name
    for label in _JOB_LABELS:
        if owner := item.text("metadata", "labels", label):
            yield owner


def _of_pod(pod: Item, catalogue: Catalogue) -> Iterator[Finding]:
    subject, node = f"pod/{pod.text('metadata', 'name')}", pod.text("spec", "nodeName") or None
    yield from _of_conditions(pod, subject, node, only="DisruptionTarget")
    status = pod.get("status")
    if status:
        yield from _said(status, subject, node, None)
    for group in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        for container in pod.each("status", group):
            yield from _of_container(container, subject, node, catalogue)


def _of_container(container: Item, subject: str, node: str | None, catalogue: Catalogue) -> Iterator[Finding]:
    for state in ("state", "lastState"):
        ended = container.get(state, "terminated")
        if ended:
            at = moment(ended.text("finishedAt"))
            told = [*_said(ended, subject, node, at), *_last_words(ended, node, catalogue)]
            yield from told or _exited(ended, subject, node, at)
        if waiting := container.get(state, "waiting"):
            yield from _said(waiting, subject, node, None)


def _exited(ended: Item, subject: str, node: str | None, at: float | None) -> Iterator[Finding]:
    """Yield that the container failed, where nothing tells why."""
    code = ended.get("exitCode")
    if code and ended.text("exitCode") != "0":
        text = f"{ended.text('reason')}: exit code {ended.text('exitCode')}"
        yield EXITED.of(ended.document.seen(code.line, Source.SCHEDULER, text=text, node=node, at=at), object=subject)


def _last_words(ended: Item, node: str | None, catalogue: Catalogue) -> Iterator[Finding]:
    """Yield what the container itself wrote into its termination message."""
    message = ended.get("message")
    if not message or ended.text("exitCode") in {"", "0"}:
        return
    for words in ended.text("message").splitlines():
        for match in catalogue.match(words, Source.JOB_LOG):
            seen = ended.document.seen(
                message.line, Source.JOB_LOG, text=words, node=node, at=moment(ended.text("finishedAt"))
            )
            yield finding(match, seen)


def _of_conditions(item: Item, subject: str, node: str | None = None, only: str | None = None) -> Iterator[Finding]:
    for condition in item.each("status", "conditions"):
        if condition.text("status") == "True" and only in {None, condition.text("type")}:
            yield from _said(condition, subject, node, moment(condition.text("lastTransitionTime")))


def _said(where: Item, subject: str, node: str | None, at: float | None) -> Iterator[Finding]:
    """Yield what a pair of reason and message means; the message is the line to look at."""
    reason, message = where.text("reason"), where.text("message")
    rule = rule_for(reason, message)
    line = where.get("message") if message else where.get("reason")
    if rule and line:
        seen = where.document.seen(line.line, Source.SCHEDULER, text=f"{reason}: {message}", node=node, at=at)
        yield rule.of(seen, object=subject)


def _of_event(event: Item) -> Iterator[Finding]:
    about = event.get("involvedObject") or event.get("regarding")
    kind, name = (about.text("kind"), about.text("name")) if about else ("", "")
    at = moment(event.text("lastTimestamp") or event.text("eventTime") or event.text("firstTimestamp"))
    node = name if kind == "Node" else event.text("source", "host") or None
    yield from _said(event, f"{kind}/{name}".lower(), node, at)


def _of_node(node: Item, name: str) -> Iterator[Finding]:
    for condition in node.each("status", "conditions"):
        if condition.text("type") != "Ready" or condition.text("status") == "True":
            continue
        rule = rule_for("NodeNotReady", "")
        line = condition.get("message") or condition.get("status")
        if rule and line:
            at = moment(condition.text("lastTransitionTime"))
            text = f"Ready={condition.text('status')}: {condition.text('message')}"
            yield rule.of(
                condition.document.seen(line.line, Source.SCHEDULER, text=text, node=name, at=at), object=f"node/{name}"
            )


READER = Reader(_recognises, _read)
