"""Where the Kubernetes side asks the brain: from what was gathered of an attempt to its diagnosis. Pure."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timezone

from wheeltapper.attempt import Attempt, Ending
from wheeltapper.catalogue import Catalogue
from wheeltapper.diagnosis.diagnose import diagnose
from wheeltapper.diagnosis.kept_off import kept_off
from wheeltapper.diagnosis.model import Diagnosis
from wheeltapper.evidence import Finding
from wheeltapper.inputs import Reading, conclude
from wheeltapper.scan.inputs import read_stream
from wheeltapper_operator.endings import Ending as Gathered
from wheeltapper_operator.gang import number_of
from wheeltapper_operator.jobs import Job
from wheeltapper_operator.objects import NodeHealth


def attempt_of(job: Job, gathered: Gathered, nodes: Sequence[str], now: float) -> Attempt:
    """Return the attempt of *job* that ended, as its cluster knows it."""
    return Attempt(
        key=f"{job.uid}/{number_of(job)}",
        job=job.key,
        nodes=tuple(dict.fromkeys(node for node in nodes if node)),
        ending=_ending(gathered),
        exit_code=gathered.exit_code,
        name=job.name,
        partition=job.namespace,
        end=now,
        wants_requeue=job.wish,
        leave_alone=job.leave_alone,
    )


def _ending(gathered: Gathered) -> Ending:
    if gathered.kept_off:
        return Ending.LAUNCH_FAILED
    return Ending.UNKNOWN if gathered.fault and not gathered.records else Ending.FAILED


def diagnosis_of(
    gathered: Gathered,
    attempt: Attempt,
    healths: Iterable[NodeHealth],
    events: str,
    catalogue: Catalogue,
    window_s: float,
) -> Diagnosis:
    """Return why *attempt* ended: from its pods, their logs and events, and from what its nodes' agents have found."""
    of_nodes = tuple(_of_nodes(attempt, healths))
    # A pod's word that it was kept off only says whom to ask: its node's agent.
    asked = {gathered.nodes[uid] for uid in gathered.kept_off}
    guilty = [each for each in of_nodes if each.evidence.node in asked and each.convicts]
    if guilty:
        return kept_off(guilty, "preflight")
    case = conclude(tuple(_readings(gathered, events, catalogue)))
    findings = [*(_placed(each, gathered) for each in case.findings), *of_nodes]
    return diagnose(findings, attempt, window_s=window_s)


def _readings(gathered: Gathered, events: str, catalogue: Catalogue) -> Iterator[Reading]:
    for uid, record in gathered.records.items():
        yield _read(f"pod-{uid}.json", record, catalogue)
    for name, log in gathered.logs.items():
        yield _read(f"{name}.log", log, catalogue)
    if events:
        yield _read("events.json", events, catalogue)
    if gathered.disrupted:
        # Somebody ended pods: of one whose node does not answer, the node is the cause. Its event may come too late.
        for node in sorted(gathered.silent.keys() & set(gathered.nodes.values())):
            yield _read(f"node-{node}.json", _silent(node, gathered.silent[node]), catalogue)


def _read(name: str, text: str, catalogue: Catalogue) -> Reading:
    return read_stream(io.BytesIO(text.encode()), name, catalogue, None)


def _silent(node: str, since: float) -> str:
    stamp = datetime.fromtimestamp(since, tz=timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    ready = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "lastTransitionTime": stamp}
    said = {"conditions": [{**ready, "message": "the node is not ready"}]}
    return json.dumps({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}, "status": said}, indent=2)


def _placed(finding: Finding, gathered: Gathered) -> Finding:
    """Return *finding* with the node of the pod that it is about."""
    kind, _, name = finding.fields.get("object", "").partition("/")
    node = gathered.places.get(name) if kind == "pod" else None
    if not node or finding.evidence.node:
        return finding
    return replace(finding, evidence=replace(finding.evidence, node=node))


def _of_nodes(attempt: Attempt, healths: Iterable[NodeHealth]) -> Iterator[Finding]:
    for health in healths:
        if health.name in attempt.nodes:
            for each in health.findings:
                # An agent speaks for its own node and for no other.
                yield replace(each, evidence=replace(each.evidence, node=health.name))
